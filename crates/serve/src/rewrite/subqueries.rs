//! Subqueries among the results, in parentheses of their own.
//!
//! The parser replaces them by NULL where it thinks that the engine cannot answer them, or takes their first row. It
//! does so only where nothing is around them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, SelectItem, SetExpr, Statement, Value, VisitorMut,
};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};

use crate::catalog::plain_name;
use crate::visit::{self, Part, visit_mut};

/// Whether the text may contain a subquery: a cheap test that spares most statements the parsing.
pub fn may_have(sql: &str) -> bool {
    sql.to_ascii_lowercase().matches("select").nth(1).is_some()
}

/// Whether statements ask about catalogs. They are left to the parser, which is made for them.
pub fn ask_catalogs(statements: &[Statement]) -> bool {
    let is_catalog = |table: &ObjectName| {
        let name = plain_name(table);
        name.starts_with("pg_") || name.starts_with("information_schema.")
    };
    let names_catalog = |part: Part<'_>| matches!(part, Part::Relation(table) if is_catalog(table));
    statements.iter().any(|statement| visit::any(statement, names_catalog))
}

/// Puts parentheses around the subqueries of all select lists; returns whether there was one.
pub fn protect(statements: &mut Vec<Statement>) -> PgWireResult<bool> {
    let mut protect = ProtectSubqueries { found: false };
    visit_mut(statements, &mut protect)?;
    Ok(protect.found)
}

struct ProtectSubqueries {
    found: bool,
}

impl ProtectSubqueries {
    fn protect(&mut self, query: &mut SetExpr) {
        match query {
            SetExpr::Select(select) => {
                for item in &mut select.projection {
                    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } =
                        item
                        && matches!(expr, Expr::Subquery(_))
                    {
                        let subquery = std::mem::replace(expr, Expr::value(Value::Null));
                        *expr = Expr::Nested(Box::new(subquery));
                        self.found = true;
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.protect(left);
                self.protect(right);
            }
            // The visitor comes to queries inside by itself.
            _ => {}
        }
    }
}

impl VisitorMut for ProtectSubqueries {
    type Break = PgWireError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PgWireError> {
        self.protect(&mut query.body);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion_postgres::datafusion_pg_catalog::sql::PostgresCompatibilityParser;

    use crate::rewrite::rewrite_for_parser;

    #[test]
    fn subqueries_that_are_results_stay_what_they_are() {
        let parsed = |sql: &str| {
            let known = rewrite_for_parser(sql).unwrap();
            let statements = PostgresCompatibilityParser::new().parse(&known).unwrap();
            statements[0].to_string()
        };
        for sql in [
            "SELECT (SELECT max(v.age) FROM v) AS m",
            "SELECT age, (SELECT count(*) FROM v AS b WHERE b.age = p.age) FROM v AS p",
            "WITH c AS (SELECT 1 AS n) SELECT (SELECT c.n FROM c) AS total",
            "SELECT 1 UNION ALL SELECT (SELECT v.age FROM v)",
            "SELECT x FROM (SELECT (SELECT v.age FROM v WHERE v.age = $1) AS x) AS t",
            "SELECT (SELECT max(v.age) FROM v) AS pg_x, 'information_schema' /* ::reg */",
        ] {
            let parsed = parsed(sql);
            assert!(!parsed.contains("NULL") && !parsed.contains("LIMIT"), "{parsed}");
            assert!(parsed.contains("((SELECT"), "{parsed}");
        }
        // Questions about catalogs are answered as before, and other statements are not touched.
        assert_eq!(
            rewrite_for_parser("SELECT (SELECT oid FROM pg_class)").unwrap(),
            "SELECT (SELECT oid FROM pg_class)"
        );
        assert_eq!(rewrite_for_parser("SELECT  age FROM v").unwrap(), "SELECT  age FROM v");
    }
}
