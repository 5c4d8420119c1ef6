//! Rewrites statements that the protocol's parser would misread, so that they mean what they mean in Postgres.
//!
//! The parser is made for the queries that clients send to catalogs. It does not know `REFRESH`, replaces subqueries in
//! select lists, and splits array literals at every comma.

mod arrays;
mod subqueries;

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Statement, Value, ValueWithSpan, VisitorMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser as SqlParser;
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};

use crate::visit::visit_mut;

/// The procedure whose call stands for `REFRESH MATERIALIZED VIEW`, which the parser does not know.
pub const REFRESH: &str = "refresh_view";

/// The statement as the parser understands it; an error if it has a malformed or unsupported array literal.
pub fn rewrite_for_parser(sql: &str) -> PgWireResult<Cow<'_, str>> {
    if let Some(call) = refresh_as_call(sql) {
        return Ok(Cow::Owned(call));
    }
    let may_have_subqueries = subqueries::may_have(sql);
    if !may_have_subqueries && !arrays::may_have(sql) {
        return Ok(Cow::Borrowed(sql));
    }
    // What does not parse is for the parser to explain.
    let Ok(mut statements) = SqlParser::parse_sql(&PostgreSqlDialect {}, sql) else {
        return Ok(Cow::Borrowed(sql));
    };
    let mut changed = arrays::expand(&mut statements)?;
    if may_have_subqueries && !subqueries::ask_catalogs(&statements) {
        changed |= subqueries::protect(&mut statements)?;
    }
    if !changed {
        return Ok(Cow::Borrowed(sql));
    }
    visit_mut(&mut statements, &mut PreserveLiterals)?;
    let statements: Vec<String> = statements.iter().map(Statement::to_string).collect();
    Ok(Cow::Owned(statements.join("; ")))
}

/// `REFRESH MATERIALIZED VIEW [CONCURRENTLY] v` as a call. Readers keep the release that they began with either way.
fn refresh_as_call(sql: &str) -> Option<String> {
    let statement = sql.trim().trim_end_matches(';').trim_end();
    let mut words = statement.split_whitespace().peekable();
    for expected in ["refresh", "materialized", "view"] {
        words.next_if(|word| word.eq_ignore_ascii_case(expected))?;
    }
    let mut view = words.next()?;
    if view.eq_ignore_ascii_case("concurrently")
        && let Some(next) = words.next()
    {
        view = next;
    }
    if words.next().is_some() {
        return None;
    }
    let view = view.replace('\'', "");
    let own = ["public.", "\"public\"."].iter().find_map(|schema| view.strip_prefix(schema));
    let view = own.unwrap_or(&view).trim_matches('"');
    Some(format!("CALL {REFRESH}('{view}')"))
}

/// Changes what the parser's own printer would not print as it was read.
struct PreserveLiterals;

impl VisitorMut for PreserveLiterals {
    type Break = PgWireError;

    /// Writes texts with two quotes in a row, or one after a backslash, as `E'…'`: the printer takes such quotes for
    /// escaped ones and drops one.
    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<PgWireError> {
        if let Value::SingleQuotedString(text) = &mut value.value
            && ["''", "\\'"].iter().any(|quotes| text.contains(quotes))
        {
            value.value = Value::EscapedStringLiteral(std::mem::take(text));
        }
        ControlFlow::Continue(())
    }

    /// Puts parentheses around a sign behind a sign: two minus signs begin a comment.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PgWireError> {
        if let Expr::UnaryOp { expr: operand, .. } = expr
            && matches!(operand.as_ref(), Expr::UnaryOp { .. })
        {
            let signed = std::mem::replace(operand.as_mut(), Expr::value(Value::Null));
            **operand = Expr::Nested(Box::new(signed));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn views_are_refreshed_by_any_of_their_names() {
        for name in ["v", "public.v", "\"v\"", "\"public\".\"v\"", "concurrently v"] {
            let sql = format!("REFRESH MATERIALIZED VIEW {name};");
            let call = rewrite_for_parser(&sql).unwrap().into_owned();
            assert!(call.ends_with("('v')"), "{call}");
        }
        let more = "REFRESH MATERIALIZED VIEW v WITH NO DATA";
        assert_eq!(rewrite_for_parser(more).unwrap(), more);
    }

    #[test]
    fn texts_keep_their_quotes() {
        for text in ["'it''s'", "'a''''b'", "'a\\''b'", "'''''c'", "E'a\\'\\'b'"] {
            let sql = format!("SELECT (SELECT {text})");
            let known = rewrite_for_parser(&sql).unwrap();
            assert!(known.contains("((SELECT"), "{known}");
            let value = |sql: &str| {
                let mut found = Values::default();
                let mut parsed = SqlParser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
                visit_mut(&mut parsed, &mut found).unwrap();
                found.0
            };
            assert_eq!(value(&known), value(&sql), "{known}");
        }
    }

    #[test]
    fn signs_behind_signs_are_no_comments() {
        let known = rewrite_for_parser("SELECT - -1, - - -a, (SELECT 2)").unwrap();
        assert!(!known.contains("--") && known.contains("((SELECT"), "{known}");
        assert!(SqlParser::parse_sql(&PostgreSqlDialect {}, &known).is_ok(), "{known}");
    }

    #[derive(Default)]
    struct Values(Vec<String>);

    impl VisitorMut for Values {
        type Break = PgWireError;

        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<PgWireError> {
            self.0.extend(value.value.clone().into_string());
            ControlFlow::Continue(())
        }
    }
}
