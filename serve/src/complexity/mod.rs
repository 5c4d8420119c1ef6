//! Statements that are too deep are turned away before anything parses them, and those that would become too large before
//! they are planned ([`expansion`]) and optimized ([`predicates`]).
//!
//! Parsing and rewriting walk a statement recursively and on the threads of the connections: a few kilobytes
//! of nested calls take the parser time that doubles with every level, and a long chain of operators takes
//! more stack than a thread has, which ends the whole process.

pub mod expansion;
pub mod predicates;

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use datafusion_postgres::pgwire::error::PgWireError;

use crate::wire::{error, state};

/// Stack of every thread that sees statements; what [`MOST_PARTS`] operators in a chain need, with room.
pub const STACK_BYTES: usize = 32 << 20;

/// Bytes of a message with statements.
const MOST_BYTES: usize = 1 << 20;
/// Parentheses, brackets and braces within each other.
const MOST_LEVELS: usize = 16;
/// Operators and key words, of which chains are made. Values and names do not count: a list may be long.
const MOST_PARTS: usize = 600;

/// Refuses statements that are too long or too deep to be looked at.
pub fn check(sql: &str) -> Result<(), PgWireError> {
    if sql.len() > MOST_BYTES {
        return Err(too_complex(format!("a statement has at most {MOST_BYTES} bytes")));
    }
    // What is not even a list of words is for the parser to explain.
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize() else { return Ok(()) };
    let (mut level, mut parts) = (0usize, 0usize);
    for token in &tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => level += 1,
            Token::RParen | Token::RBracket | Token::RBrace => level = level.saturating_sub(1),
            Token::Word(word) if word.keyword == Keyword::NoKeyword => continue,
            Token::Whitespace(_) | Token::Comma | Token::Period | Token::Number(..) => continue,
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => continue,
            Token::Placeholder(_) => continue,
            _ => {}
        }
        parts += 1;
        if level > MOST_LEVELS {
            let limit = format!("parentheses nest at most {MOST_LEVELS} levels deep");
            return Err(too_complex(limit));
        }
        if parts > MOST_PARTS {
            let limit = format!("a statement has at most {MOST_PARTS} operators and key words");
            return Err(too_complex(limit));
        }
    }
    Ok(())
}

fn too_complex(limit: String) -> PgWireError {
    error(state::TOO_COMPLEX, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_and_nests_are_refused_and_long_lists_are_not() {
        let list = format!("SELECT * FROM v WHERE age IN ({})", vec!["'1'"; 5_000].join(", "));
        assert!(check(&list).is_ok());
        let bound: Vec<String> = (1..3_000).map(|number| format!("${number}")).collect();
        assert!(check(&format!("SELECT * FROM v WHERE age IN ({})", bound.join(", "))).is_ok());
        assert!(check("SELECT 'it''s ((((((((((((((((((((' FROM v").is_ok());
        for chain in
            ["1+", "1=1 or ", "select 1 union all ", "not ", "- ", "'a'||", "1::int=", "case when "]
        {
            assert!(check(&format!("select {}1", chain.repeat(20))).is_ok(), "{chain}");
            assert!(check(&format!("select {}1", chain.repeat(700))).is_err(), "{chain}");
        }
        for (open, close) in [("abs(", ")"), ("(", ")"), ("not(", ")"), ("array[", "]")] {
            let nested = |levels: usize| {
                check(&format!("select {}1{}", open.repeat(levels), close.repeat(levels)))
            };
            assert!(nested(8).is_ok() && nested(30).is_err(), "{open}");
        }
    }
}
