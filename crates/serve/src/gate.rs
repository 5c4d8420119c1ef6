//! What a client may say.
//!
//! Clients live in sessions that hold nothing but their releases, so there is nothing to steal even
//! for a statement that slips through. Still the list below says what is allowed, and all else is not:
//!
//! | statement | what happens |
//! | --- | --- |
//! | `SELECT`, `WITH`, `VALUES`, `TABLE`, `DESCRIBE`, `SHOW TABLES`, `SHOW COLUMNS` | runs |
//! | `EXPLAIN [ANALYZE]` of a query | runs, without `VERBOSE` |
//! | `SET` of a client's own settings, `SHOW` | kept with the connection, never given to the engine |
//! | `BEGIN`, `COMMIT`, `ROLLBACK` | acknowledged: everything is read-only |
//! | `DISCARD`, `RESET`, `DEALLOCATE` | acknowledged: connection pools send them |
//! | `REFRESH MATERIALIZED VIEW` | for users who may |

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, not_impl_err, plan_err};
use datafusion::error::Result as EngineResult;
use datafusion::logical_expr::{Expr as EngineExpr, ExprSchemable, LogicalPlan};
use datafusion::prelude::SQLOptions;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Reset, Set, Statement, Value,
};
use datafusion_postgres::pgwire::error::PgWireResult;

use crate::growth::refused;
use crate::rewrite::REFRESH;
use crate::wire::{error, state};

/// The engine's table of its settings, directories of the server among them.
const SETTINGS: &str = "df_settings";

/// What becomes of a statement.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// The engine runs it.
    Query,
    /// The protocol's own handlers keep it with the connection.
    Connection,
    /// There is nothing to do; this is the answer.
    Acknowledge(&'static str),
    /// A prepared statement is forgotten, or all of them.
    Forget(Ident),
    /// A view is computed anew.
    Refresh(String),
}

/// Settings that the protocol's handlers keep with the connection.
const KEPT: [&str; 7] = [
    "application_name",
    "bytea_output",
    "datestyle",
    "extra_float_digits",
    "intervalstyle",
    "search_path",
    "statement_timeout",
];

/// Settings that clients send and that change nothing here.
const WITHOUT_EFFECT: [&str; 12] = [
    "client_min_messages",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "jit",
    "lock_timeout",
    "row_security",
    "standard_conforming_strings",
    "synchronize_seqscans",
    "timezone",
    "transaction_isolation",
    "transaction_read_only",
];

/// What can be shown beside settings.
const SHOWN: [&str; 10] = [
    "client_encoding",
    "integer_datetimes",
    "is_superuser",
    "max_identifier_length",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "time zone",
    "transaction isolation level",
];

/// Whether a client may say this.
pub fn judge(statement: &Statement) -> PgWireResult<Verdict> {
    refused::check_statement(statement)?;
    match statement {
        Statement::Query(_)
        | Statement::ExplainTable { .. }
        | Statement::ShowTables { .. }
        | Statement::ShowColumns { .. } => Ok(Verdict::Query),
        Statement::Explain { verbose, options, statement, .. } => {
            if *verbose || options.is_some() {
                let hint = "write EXPLAIN or EXPLAIN ANALYZE, without VERBOSE and options";
                return Err(error(state::NOT_SUPPORTED, hint));
            }
            match judge(statement)? {
                Verdict::Query => Ok(Verdict::Query),
                _ => Err(error(state::NOT_PERMITTED, "EXPLAIN is for queries")),
            }
        }
        Statement::ShowVariable { variable } => judge_show(variable),
        Statement::ShowCatalogs { .. } => Ok(Verdict::Connection),
        Statement::StartTransaction { statements, .. } if statements.is_empty() => {
            Ok(Verdict::Connection)
        }
        Statement::Commit { .. } | Statement::Rollback { savepoint: None, .. } => {
            Ok(Verdict::Connection)
        }
        Statement::Set(set) => judge_set(set),
        Statement::Discard { .. } => Ok(Verdict::Acknowledge("DISCARD ALL")),
        Statement::Reset(reset) => match &reset.reset {
            Reset::ALL => Ok(Verdict::Acknowledge("RESET")),
            Reset::ConfigurationParameter(name) => {
                judge_setting(&name.to_string().to_lowercase())?;
                Ok(Verdict::Acknowledge("RESET"))
            }
        },
        Statement::Deallocate { name, .. } => Ok(Verdict::Forget(name.clone())),
        Statement::Call(call) => match refreshed_view(&call.name.to_string(), &call.args) {
            Some(view) => Ok(Verdict::Refresh(view)),
            None => Err(not_permitted()),
        },
        _ => Err(not_permitted()),
    }
}

fn not_permitted() -> datafusion_postgres::pgwire::error::PgWireError {
    error(
        state::NOT_PERMITTED,
        "permission denied: this service answers SELECT, EXPLAIN, SHOW and SET of a client's settings",
    )
}

fn judge_set(set: &Set) -> PgWireResult<Verdict> {
    match set {
        Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            let name = variable.to_string().to_lowercase();
            if name == "client_encoding" {
                return judge_encoding(values.first());
            }
            judge_setting(&name)?;
            if name == "statement_timeout" {
                judge_timeout(values.first())?;
            }
            // Whatever the protocol's handler does not recognise, it would hand to the engine.
            let recognised = scope.is_none()
                && KEPT.contains(&name.as_str())
                && values.first().is_some_and(|value| {
                    matches!(value, Expr::Value(_)) || name == "statement_timeout"
                });
            Ok(if recognised { Verdict::Connection } else { Verdict::Acknowledge("SET") })
        }
        Set::SetTimeZone { local: false, value: Expr::Value(_) } => Ok(Verdict::Connection),
        Set::SetTimeZone { .. } | Set::SetTransaction { .. } => Ok(Verdict::Acknowledge("SET")),
        Set::SetNames { charset_name, .. } => judge_encoding_name(&charset_name.value),
        _ => Err(not_permitted()),
    }
}

/// A client's own settings and what drivers ask of the service; the engine's are nobody's business.
fn judge_show(variable: &[Ident]) -> PgWireResult<Verdict> {
    let words: Vec<String> = variable.iter().map(|word| word.value.to_lowercase()).collect();
    let name = words.join(" ");
    if name == "all" {
        return Err(error(state::NOT_SUPPORTED, "SHOW shows one setting: name it"));
    }
    if SHOWN.contains(&name.as_str()) {
        return Ok(Verdict::Connection);
    }
    judge_setting(&words.join("."))?;
    Ok(Verdict::Connection)
}

fn judge_setting(name: &str) -> PgWireResult<()> {
    if KEPT.contains(&name) || WITHOUT_EFFECT.contains(&name) {
        return Ok(());
    }
    if name.contains('.') {
        let message = format!("permission denied for parameter \"{name}\"");
        return Err(error(state::NOT_PERMITTED, message));
    }
    Err(error(state::NO_SETTING, format!("unrecognized configuration parameter \"{name}\"")))
}

/// The protocol's handler multiplies the number without looking.
fn judge_timeout(value: Option<&Expr>) -> PgWireResult<()> {
    let text = value.map(ToString::to_string).unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if digits.len() > 10 {
        return Err(error(state::OUT_OF_RANGE, "statement_timeout is out of range"));
    }
    Ok(())
}

fn judge_encoding(value: Option<&Expr>) -> PgWireResult<Verdict> {
    match value {
        Some(Expr::Value(value)) => match &value.value {
            Value::SingleQuotedString(name) => judge_encoding_name(name),
            other => judge_encoding_name(&other.to_string()),
        },
        Some(other) => judge_encoding_name(&other.to_string()),
        None => judge_encoding_name(""),
    }
}

fn judge_encoding_name(name: &str) -> PgWireResult<Verdict> {
    let letters = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    match letters.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Ok(Verdict::Acknowledge("SET")),
        _ => Err(error(state::NOT_SUPPORTED, "the only client_encoding is UTF8")),
    }
}

fn refreshed_view(name: &str, arguments: &FunctionArguments) -> Option<String> {
    let FunctionArguments::List(list) = arguments else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] if name == REFRESH => {
            match &value.value {
                Value::SingleQuotedString(view) => Some(view.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Checks the plan too: it must read and do nothing else.
pub fn check_plan(plan: &LogicalPlan) -> EngineResult<()> {
    refused::check_plan(plan)?;
    plan.apply_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) if scan.table_name.table() == SETTINGS => {
            plan_err!("table 'releases.information_schema.{SETTINGS}' not found")
        }
        _ => check_casts(node).map(|()| TreeNodeRecursion::Continue),
    })?;
    SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false)
        .verify_plan(plan)
}

/// Refuses casts of texts to arrays: the engine takes the whole text for the only value. Array literals are written
/// out before.
fn check_casts(node: &LogicalPlan) -> EngineResult<()> {
    let mut schema = DFSchema::empty();
    for input in node.inputs() {
        schema = schema.join(input.schema()).unwrap_or(schema);
    }
    node.apply_expressions(|root| {
        root.apply(|expr| {
            let (from, to) = match expr {
                EngineExpr::Cast(cast) => (&cast.expr, &cast.field),
                EngineExpr::TryCast(cast) => (&cast.expr, &cast.field),
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            if to.data_type().is_list() && from.get_type(&schema).is_ok_and(|from| from.is_string()) {
                return not_impl_err!(
                    "a text cannot be cast to an array here: write '{{a,b}}'::text[], ARRAY['a', 'b'] or string_to_array"
                );
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion_postgres::datafusion_pg_catalog::sql::PostgresCompatibilityParser;

    use super::*;
    use crate::rewrite::rewrite_for_parser;

    fn verdict(sql: &str) -> PgWireResult<Verdict> {
        let known = rewrite_for_parser(sql).unwrap();
        let statements = PostgresCompatibilityParser::new().parse(&known).unwrap();
        judge(&statements[0])
    }

    #[test]
    fn queries_run() {
        for sql in [
            "SELECT 1",
            "WITH a AS (SELECT 1) TABLE a",
            "VALUES (1), (2)",
            "EXPLAIN SELECT 1",
            "EXPLAIN ANALYZE SELECT 1",
            "SHOW TABLES",
        ] {
            assert_eq!(verdict(sql).unwrap(), Verdict::Query, "{sql}");
        }
    }

    #[test]
    fn whatever_writes_defines_or_steers_the_engine_is_refused() {
        for sql in [
            "CREATE TABLE t (a INT)",
            "CREATE TABLE t AS SELECT 1",
            "CREATE VIEW v AS SELECT 1",
            "DROP TABLE t",
            "INSERT INTO t VALUES (1)",
            "UPDATE t SET a = 1",
            "DELETE FROM t",
            "COPY t TO '/tmp/t.csv'",
            "COPY t FROM STDIN",
            "PREPARE p AS SELECT 1",
            "EXECUTE p",
            "CALL anything('x')",
            "EXPLAIN VERBOSE SELECT 1",
            "EXPLAIN (VERBOSE true) SELECT 1",
            "EXPLAIN CREATE TABLE t AS SELECT 1",
            "DECLARE c CURSOR FOR SELECT 1",
            "SET datafusion.execution.target_partitions = 1",
            "SET anonymize.default_k = 2",
            "RESET datafusion.execution.target_partitions",
            "SET ROLE admin",
            "SET SESSION AUTHORIZATION admin",
            "SET client_encoding = 'LATIN1'",
            "SET no_such_setting = 1",
            "SET statement_timeout = '18446744073709551615s'",
            "SHOW ALL",
            "SHOW datafusion.execution.target_partitions",
            "SHOW anonymize.default_k",
            "SHOW no_such_setting",
            "SET datafusion.sql_parser.parse_float_as_decimal = true",
            "SAVEPOINT s",
            "GRANT SELECT ON t TO PUBLIC",
        ] {
            assert!(verdict(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn what_clients_send_on_their_own_is_accepted() {
        for sql in [
            "SET extra_float_digits = 3",
            "SET application_name = 'psql'",
            "SET DateStyle = 'ISO'",
            "SET statement_timeout = '5s'",
            "SET TIME ZONE 'UTC'",
            "BEGIN",
            "COMMIT",
            "ROLLBACK",
            "SHOW server_version",
            "SHOW search_path",
            "SHOW TRANSACTION ISOLATION LEVEL",
            "SHOW TIME ZONE",
        ] {
            assert_eq!(verdict(sql).unwrap(), Verdict::Connection, "{sql}");
        }
        for sql in [
            "DISCARD ALL",
            "RESET ALL",
            "SET client_encoding = 'UTF8'",
            "SET SESSION datestyle = 'ISO'",
        ] {
            assert!(matches!(verdict(sql).unwrap(), Verdict::Acknowledge(_)), "{sql}");
        }
    }

    #[test]
    fn a_refresh_is_understood_as_postgres_writes_it() {
        for sql in [
            "REFRESH MATERIALIZED VIEW patients;",
            "refresh  materialized view public.patients",
            "REFRESH MATERIALIZED VIEW CONCURRENTLY \"public\".\"patients\" ;",
            "refresh materialized view concurrently patients",
        ] {
            assert_eq!(verdict(sql).unwrap(), Verdict::Refresh("patients".to_owned()), "{sql}");
        }
    }
}
