//! Statements in words that the parser knows and understands as Postgres does.
//!
//! The parser is made for the questions that clients ask about catalogs. It does not know `REFRESH`, replaces subqueries
//! among the results, and takes array literals apart at every comma. What it would misunderstand is written differently here.

mod arrays;
mod subqueries;

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Statement, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser as SqlParser;
use datafusion_postgres::pgwire::error::PgWireResult;

/// The name under which the parser meets a refresh: it does not know Postgres' statement.
pub const REFRESH: &str = "refresh_view";

/// A statement in words that the parser knows; an error if it has an array literal that is none.
pub fn in_known_words(sql: &str) -> PgWireResult<Cow<'_, str>> {
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
    let mut changed = arrays::write_out(&mut statements)?;
    if may_have_subqueries && !subqueries::ask_catalogs(&statements) {
        changed |= subqueries::protect(&mut statements);
    }
    if !changed {
        return Ok(Cow::Borrowed(sql));
    }
    let _ = statements.visit(&mut AsItIsRead);
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

/// Makes statements say when they are written down what they said before.
struct AsItIsRead;

impl VisitorMut for AsItIsRead {
    type Break = ();

    /// Writes texts with two quotes in a row, or one after a backslash, in the notation with escapes. In the plain one
    /// they would be taken for quotes that are escaped already, and lose one.
    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::SingleQuotedString(text) = &mut value.value
            && ["''", "\\'"].iter().any(|quotes| text.contains(quotes))
        {
            value.value = Value::EscapedStringLiteral(std::mem::take(text));
        }
        ControlFlow::Continue(())
    }

    /// Puts parentheses around a sign behind a sign: two minus signs begin a comment.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
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
            let call = in_known_words(&sql).unwrap().into_owned();
            assert!(call.ends_with("('v')"), "{call}");
        }
        let more = "REFRESH MATERIALIZED VIEW v WITH NO DATA";
        assert_eq!(in_known_words(more).unwrap(), more);
    }

    #[test]
    fn texts_keep_their_quotes() {
        for text in ["'it''s'", "'a''''b'", "'a\\''b'", "'''''c'", "E'a\\'\\'b'"] {
            let sql = format!("SELECT (SELECT {text})");
            let known = in_known_words(&sql).unwrap();
            assert!(known.contains("((SELECT"), "{known}");
            let value = |sql: &str| {
                let mut found = Values::default();
                let _ = SqlParser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().visit(&mut found);
                found.0
            };
            assert_eq!(value(&known), value(&sql), "{known}");
        }
    }

    #[test]
    fn signs_behind_signs_are_no_comments() {
        let known = in_known_words("SELECT - -1, - - -a, (SELECT 2)").unwrap();
        assert!(!known.contains("--") && known.contains("((SELECT"), "{known}");
        assert!(SqlParser::parse_sql(&PostgreSqlDialect {}, &known).is_ok(), "{known}");
    }

    #[derive(Default)]
    struct Values(Vec<String>);

    impl VisitorMut for Values {
        type Break = ();

        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
            self.0.extend(value.value.clone().into_string());
            ControlFlow::Continue(())
        }
    }
}
