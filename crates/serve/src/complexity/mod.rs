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

/// Stack of every thread that sees statements; what [`LONGEST_CHAIN`] operators need, with room.
pub const STACK_BYTES: usize = 32 << 20;

/// Bytes of a message with statements.
const MOST_BYTES: usize = 1 << 20;
/// Parentheses, brackets and braces within each other.
const MOST_LEVELS: usize = 16;
/// Operators and key words that may lie within each other. Values and names do not count, and what a comma separates
/// lies side by side: a list may be long.
const LONGEST_CHAIN: usize = 600;
/// Operators and key words, wherever they are: planning takes longer with every one.
const MOST_PARTS: usize = 10_000;
/// What parentheses may cost together, where each costs twice as much as the one around it: so does parsing calls.
const MOST_NESTING: usize = 1 << 17;
/// Names with dots between them.
const LONGEST_NAME: usize = 8;

/// Refuses statements that are too long or too deep to be looked at.
pub fn check(sql: &str) -> Result<(), PgWireError> {
    if sql.len() > MOST_BYTES {
        return Err(too_complex(format!("a statement has at most {MOST_BYTES} bytes")));
    }
    // What is not even a list of words is for the parser to explain.
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize() else { return Ok(()) };
    let (mut nest, mut parts, mut nesting, mut name) = (Nest::default(), 0usize, 0usize, 0usize);
    for token in &tokens {
        name = match token {
            Token::Period => name + 1,
            Token::Word(_) | Token::Whitespace(_) => name,
            _ => 0,
        };
        if name >= LONGEST_NAME {
            return Err(too_complex(format!("a name has at most {LONGEST_NAME} parts")));
        }
        if !nest.enter(token) {
            continue;
        }
        parts += 1;
        if matches!(token, Token::LParen) {
            nesting += 1 << nest.outer.len().min(MOST_LEVELS + 1);
        }
        let limit = if nest.outer.len() > MOST_LEVELS {
            format!("parentheses nest at most {MOST_LEVELS} levels deep")
        } else if nesting > MOST_NESTING {
            "deep parentheses are too many: take parts of the statement into WITH".to_owned()
        } else if nest.depth > LONGEST_CHAIN {
            format!(
                "an expression or query has at most {LONGEST_CHAIN} operators and key words in a row"
            )
        } else if parts > MOST_PARTS {
            format!("a statement has at most {MOST_PARTS} operators and key words")
        } else {
            continue;
        };
        return Err(too_complex(limit));
    }
    Ok(())
}

/// How deep the tree of a statement is at most where a word is met.
///
/// Operators make a chain, and so do queries that are put together by `UNION` and the like. What parentheses
/// hold hangs below the chain that they are part of.
#[derive(Default)]
struct Nest {
    /// The chains outside of the innermost parentheses.
    outer: Vec<Chain>,
    innermost: Chain,
    /// The sum of all chains.
    depth: usize,
}

#[derive(Default, Clone, Copy)]
struct Chain {
    /// Since the last comma: what it separates lies side by side.
    item: usize,
    /// `UNION` and the like, which go on behind a comma.
    queries: usize,
}

impl Nest {
    /// Goes on to the next word; whether it is one that counts.
    fn enter(&mut self, token: &Token) -> bool {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.lengthen();
                self.outer.push(std::mem::take(&mut self.innermost));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if let Some(outer) = self.outer.pop() {
                    self.depth -= self.innermost.item + self.innermost.queries;
                    self.innermost = outer;
                }
            }
            Token::Comma => {
                self.next_item();
                return false;
            }
            Token::Word(word) => match word.keyword {
                Keyword::NoKeyword => return false,
                Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => {
                    self.next_item();
                    self.innermost.queries += 1;
                    self.depth += 1;
                }
                _ => self.lengthen(),
            },
            Token::Whitespace(_) | Token::Period | Token::Number(..) => return false,
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => return false,
            Token::Placeholder(_) => return false,
            _ => self.lengthen(),
        }
        true
    }

    fn lengthen(&mut self) {
        self.innermost.item += 1;
        self.depth += 1;
    }

    fn next_item(&mut self) {
        self.depth -= self.innermost.item;
        self.innermost.item = 0;
    }
}

fn too_complex(limit: String) -> PgWireError {
    error(state::TOO_COMPLEX, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_refused_and_long_lists_are_not() {
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
            // Neither parentheses nor commas before it make a chain any shorter.
            let hidden = format!("select (1, 2), f({}1, 2), 3", chain.repeat(700));
            assert!(check(&hidden).is_err(), "{chain}");
        }
        let united = " select 1, 2 union all".repeat(700);
        assert!(check(&format!("{united} select 1, 2")).is_err());
        assert!(check(&format!("select {}1", "1 + 1, ".repeat(MOST_PARTS + 1))).is_err());
    }

    #[test]
    fn what_dashboards_write_is_not_refused() {
        let dates: Vec<String> =
            (1..366).map(|day| format!("'2024-01-01'::date + {day}")).collect();
        let case = "CASE WHEN a = 1 AND b IS NOT NULL THEN 'x' WHEN a IN (2, 3) THEN 'y' ELSE NULL END AS c";
        let branch = "SELECT a, count(*) AS n FROM v WHERE b >= 1 AND c = 'd' GROUP BY a";
        for sql in [
            format!("SELECT {} FROM v", vec![case; 200].join(", ")),
            vec![branch; 50].join(" UNION ALL "),
            format!("SELECT * FROM (VALUES {}) AS t", vec!["(-1, 'a', true)"; 1_000].join(", ")),
            format!("SELECT * FROM v WHERE a IN ({})", vec!["-1"; 1_000].join(", ")),
            format!("SELECT * FROM v WHERE day IN ({})", dates.join(", ")),
        ] {
            assert!(check(&sql).is_ok(), "{}", &sql[..80]);
        }
    }

    /// The parser's time doubles with every level of calls, so many of them side by side are as bad as one deeper.
    #[test]
    fn deep_calls_and_long_names_are_few() {
        let item = |levels: usize| format!("{}1{}", "abs(".repeat(levels), ")".repeat(levels));
        assert!(check(&format!("select {}", vec![item(6); 300].join(", "))).is_ok());
        assert!(check(&format!("select {}", item(15))).is_ok());
        assert!(check(&format!("select {}", vec![item(14); 20].join(", "))).is_err());
        assert!(check("select releases.public.v.age, a.b + c.d from v").is_ok());
        assert!(check(&format!("select {}a", "a.".repeat(20))).is_err());
    }

    #[test]
    fn nests_are_refused() {
        for (open, close) in [("abs(", ")"), ("(", ")"), ("not(", ")"), ("array[", "]")] {
            let nested = |levels: usize| {
                check(&format!("select {}1{}", open.repeat(levels), close.repeat(levels)))
            };
            assert!(nested(8).is_ok() && nested(30).is_err(), "{open}");
        }
    }
}
