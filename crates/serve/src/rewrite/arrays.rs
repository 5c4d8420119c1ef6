//! Array literals, `'{a,"b, c",NULL}'`, as Postgres reads them.
//!
//! | statement | becomes |
//! | --- | --- |
//! | `'{a,"b, c"}'::text[]` | `ARRAY['a', 'b, c']::text[]` |
//! | `x = ANY('{a,"b, c"}')`, `x = ANY(ARRAY['a'])` | `x IN ('a', 'b, c')`, `x IN ('a')` |
//! | `x <> ALL('{a}')` | `x NOT IN ('a')` |
//!
//! `IN` also treats NULL as Postgres does, which the engine's array functions do not.

use std::iter::Peekable;
use std::ops::ControlFlow;
use std::str::Chars;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Statement, Value, VisitorMut,
};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};

use crate::visit::visit_mut;
use crate::wire::{error, state};

/// Whether the text may contain an array: a cheap test that spares most statements the parsing.
pub fn may_have(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    ["{", "[", "array", "any", "some", "all"].iter().any(|sign| sql.contains(sign))
}

/// Replaces all array literals; returns whether there was one.
pub fn expand(statements: &mut Vec<Statement>) -> PgWireResult<bool> {
    let mut expand = ExpandArrays { found: false };
    visit_mut(statements, &mut expand)?;
    Ok(expand.found)
}

struct ExpandArrays {
    found: bool,
}

impl VisitorMut for ExpandArrays {
    type Break = PgWireError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PgWireError> {
        match self.expand(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl ExpandArrays {
    fn expand(&mut self, expr: &mut Expr) -> PgWireResult<()> {
        match expr {
            Expr::Cast { expr: literal, data_type: DataType::Array(of), .. } => {
                refuse_lengths(of)?;
                if let Some(text) = text(literal) {
                    refuse_arrays(of)?;
                    let elem = read(text)?;
                    **literal = Expr::Array(Array { elem, named: true });
                    self.found = true;
                }
            }
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
                if let Some(list) = elements(right)? {
                    *expr = among(left, list, false);
                    self.found = true;
                }
            }
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
                // The engine's own comparison skips NULLs in the array; in Postgres they make the result NULL.
                let list = elements(right)?.ok_or_else(|| {
                    error(
                        state::NOT_SUPPORTED,
                        "<> ALL is answered for arrays that are written out, as in <> ALL (ARRAY['a', 'b']): write NOT IN \
                         (…), or NOT array_has(array, value) if the array has no NULL",
                    )
                })?;
                *expr = among(left, list, true);
                self.found = true;
            }
            _ => {}
        }
        Ok(())
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            Value::DollarQuotedString(quoted) => Some(&quoted.value),
            _ => None,
        },
        Expr::Nested(inner) => text(inner),
        _ => None,
    }
}

/// `x IN (…)` or `x NOT IN (…)`. Nothing is in an empty list, not even NULL, so that is a constant.
fn among(left: &Expr, list: Vec<Expr>, negated: bool) -> Expr {
    if list.is_empty() {
        return Expr::value(Value::Boolean(negated));
    }
    Expr::InList { expr: Box::new(left.clone()), list, negated }
}

/// The values of an array that is written out or a literal; nothing for other arrays, and for arrays of arrays.
fn elements(array: &Expr) -> PgWireResult<Option<Vec<Expr>>> {
    let list = match array {
        Expr::Nested(inner) => return elements(inner),
        Expr::Array(array) => array.elem.clone(),
        Expr::Cast { kind, expr, data_type: DataType::Array(of), .. } => {
            refuse_lengths(of)?;
            let (Some(list), Some(data_type)) = (elements(expr)?, element_type(of)) else {
                return Ok(None);
            };
            list.into_iter().map(|value| cast(kind, value, data_type)).collect()
        }
        literal => match text(literal) {
            Some(text) => read(text)?,
            None => return Ok(None),
        },
    };
    Ok(if list.iter().any(|value| matches!(value, Expr::Array(_))) { None } else { Some(list) })
}

fn element_type(of: &ArrayElemTypeDef) -> Option<&DataType> {
    match of {
        ArrayElemTypeDef::SquareBracket(inner, None) | ArrayElemTypeDef::AngleBracket(inner) => {
            Some(inner)
        }
        _ => None,
    }
}

/// The engine does not cut texts to a length. `char` has one too, of one character.
fn refuse_lengths(of: &ArrayElemTypeDef) -> PgWireResult<()> {
    let (ArrayElemTypeDef::SquareBracket(inner, _)
    | ArrayElemTypeDef::AngleBracket(inner)
    | ArrayElemTypeDef::Parenthesis(inner)) = of
    else {
        return Ok(());
    };
    match &**inner {
        DataType::Array(of) => refuse_lengths(of),
        DataType::Char(_)
        | DataType::Character(_)
        | DataType::Varchar(Some(_))
        | DataType::CharVarying(Some(_))
        | DataType::CharacterVarying(Some(_))
        | DataType::Nvarchar(Some(_)) => {
            let message = format!(
                "arrays of {inner} are not supported: write text[], and left(value, length) to cut values"
            );
            Err(error(state::NOT_SUPPORTED, message))
        }
        _ => Ok(()),
    }
}

/// A literal of an array of arrays would become another one.
fn refuse_arrays(of: &ArrayElemTypeDef) -> PgWireResult<()> {
    match of {
        ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner)
            if matches!(**inner, DataType::Array(_)) =>
        {
            Err(nested())
        }
        _ => Ok(()),
    }
}

fn nested() -> PgWireError {
    let message = "literals of arrays within arrays are not supported: write ARRAY[ARRAY['value'], ARRAY['value']]";
    error(state::NOT_SUPPORTED, message)
}

fn cast(kind: &CastKind, value: Expr, data_type: &DataType) -> Expr {
    Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(value),
        data_type: data_type.clone(),
        array: false,
        format: None,
    }
}

/// The values of a literal.
fn read(literal: &str) -> PgWireResult<Vec<Expr>> {
    let mut signs = literal.trim().chars().peekable();
    if signs.next() != Some('{') {
        return Err(malformed());
    }
    let values = read_values(&mut signs)?;
    if signs.next().is_some() { Err(malformed()) } else { Ok(values) }
}

fn malformed() -> PgWireError {
    let message = "malformed array literal: write '{value,\"value with , or }\",NULL}' or ARRAY['value', 'value']";
    error(state::BAD_DATETIME_OR_TEXT, message)
}

/// What follows an opening brace, with the closing one.
fn read_values(signs: &mut Peekable<Chars<'_>>) -> PgWireResult<Vec<Expr>> {
    let mut values = Vec::new();
    loop {
        skip_space(signs);
        let value = match signs.next() {
            Some('}') if values.is_empty() => return Ok(values),
            Some('{') => return Err(nested()),
            Some('"') => Expr::value(Value::SingleQuotedString(read_quoted(signs)?)),
            Some(first) => read_plain(first, signs)?,
            None => return Err(malformed()),
        };
        values.push(value);
        skip_space(signs);
        match signs.next() {
            Some(',') => {}
            Some('}') => return Ok(values),
            _ => return Err(malformed()),
        }
    }
}

fn skip_space(signs: &mut Peekable<Chars<'_>>) {
    while signs.next_if(|sign| sign.is_ascii_whitespace()).is_some() {}
}

/// What follows an opening quote, with the closing one.
fn read_quoted(signs: &mut Peekable<Chars<'_>>) -> PgWireResult<String> {
    let mut text = String::new();
    loop {
        match signs.next() {
            Some('"') => return Ok(text),
            Some('\\') => text.push(signs.next().ok_or_else(malformed)?),
            Some(sign) => text.push(sign),
            None => return Err(malformed()),
        }
    }
}

/// A value without quotes, up to a comma or a brace. Space around it does not belong to it.
fn read_plain(first: char, signs: &mut Peekable<Chars<'_>>) -> PgWireResult<Expr> {
    let (mut text, mut length, mut escaped) = (String::new(), 0, false);
    let mut sign = Some(first);
    while let Some(next) = sign {
        match next {
            '{' | '}' | ',' | '"' => return Err(malformed()),
            '\\' => {
                text.push(signs.next().ok_or_else(malformed)?);
                (length, escaped) = (text.len(), true);
            }
            space if space.is_ascii_whitespace() => text.push(space),
            other => {
                text.push(other);
                length = text.len();
            }
        }
        sign = signs.next_if(|sign| !matches!(sign, ',' | '}'));
    }
    text.truncate(length);
    if text.eq_ignore_ascii_case("null") && !escaped {
        return Ok(Expr::value(Value::Null));
    }
    Ok(Expr::value(Value::SingleQuotedString(text)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::rewrite::rewrite_for_parser;

    #[test]
    fn literals_are_read_as_postgres_reads_them() {
        for (literal, expected) in [
            ("{}", "ARRAY[]"),
            (" { a , b c ,d } ", "ARRAY['a', 'b c', 'd']"),
            ("{\"a,b\",\"}\",\"\"}", "ARRAY['a,b', '}', '']"),
            ("{\"a \\\"b\\\" \\\\\",a\\,b}", "ARRAY['a \"b\" \\', 'a,b']"),
            ("{NULL,null,\"NULL\",\\NULL}", "ARRAY[NULL, NULL, 'NULL', 'NULL']"),
            ("{it''s}", "ARRAY['it''s']"),
        ] {
            let sql = format!("SELECT '{literal}'::TEXT[]");
            assert_eq!(rewrite_for_parser(&sql).unwrap(), format!("SELECT {expected}::TEXT[]"));
            let sql = format!("SELECT CAST('{literal}' AS TEXT[])");
            assert_eq!(
                rewrite_for_parser(&sql).unwrap(),
                format!("SELECT CAST({expected} AS TEXT[])")
            );
        }
        for literal in ["", "a", "{", "{a", "{a,}", "{,a}", "{a}b", "{\"a}", "{\"a\"b}", "{a\"b\"}"]
        {
            assert!(
                rewrite_for_parser(&format!("SELECT '{literal}'::text[]")).is_err(),
                "{literal}"
            );
        }
    }

    #[test]
    fn comparisons_with_all_values_are_lists() {
        for (sql, expected) in [
            ("a = ANY('{\"b,c\",d}')", "a IN ('b,c', 'd')"),
            ("a = SOME (ARRAY['b', NULL])", "a IN ('b', NULL)"),
            ("a <> ALL('{1,NULL}'::INT[])", "a NOT IN ('1'::INT, NULL::INT)"),
            ("a = ANY('{}')", "false"),
            ("a <> ALL('{}')", "true"),
        ] {
            let known = rewrite_for_parser(sql_of(sql).as_str()).unwrap().into_owned();
            assert_eq!(known, sql_of(expected));
        }
        for same in ["a = ANY($1)", "a = ANY(b)", "a  IN (SELECT ALL c FROM d)", "a = '{b}'"] {
            assert_eq!(rewrite_for_parser(&sql_of(same)).unwrap(), sql_of(same));
        }
    }

    #[test]
    fn literals_may_be_quoted_with_dollars() {
        for (sql, expected) in [
            ("b = $${a,b}$$::TEXT[]", "b = ARRAY['a', 'b']::TEXT[]"),
            ("b = $x${it's}$x$::TEXT[]", "b = ARRAY['it''s']::TEXT[]"),
            ("a = ANY($${a}$$)", "a IN ('a')"),
        ] {
            assert_eq!(rewrite_for_parser(&sql_of(sql)).unwrap(), sql_of(expected));
        }
        assert!(rewrite_for_parser(&sql_of("b = $$a$$::TEXT[]")).is_err());
    }

    #[test]
    fn what_would_be_answered_wrongly_is_refused() {
        for (sql, expected) in [
            ("b = '{{a,b},{c,d}}'::text[]", "ARRAY[ARRAY["),
            ("b = '{{a},{c,d}}'::text[]", "ARRAY[ARRAY["),
            ("b = '{a,{c}}'::text[]", "ARRAY[ARRAY["),
            ("b = '{a}'::text[][]", "ARRAY[ARRAY["),
            ("a = ANY('{{a}}')", "ARRAY[ARRAY["),
            ("b = '{abcd}'::varchar(3)[]", "text[]"),
            ("b = ARRAY['abcd']::character varying(3)[]", "text[]"),
            ("b = CAST(c AS char(3)[])", "text[]"),
            ("b = '{abcd}'::char[]", "text[]"),
            ("a = ANY('{abcd}'::varchar(3)[])", "text[]"),
        ] {
            let refused = rewrite_for_parser(&sql_of(sql)).unwrap_err().to_string();
            assert!(refused.contains(expected), "{sql}: {refused}");
        }
        assert!(rewrite_for_parser(&sql_of("b = '{abcd}'::varchar[]")).is_ok());
    }

    fn sql_of(condition: &str) -> String {
        format!("SELECT * FROM v WHERE {condition}")
    }
}
