//! SQL text and the statements in it.
//!
//! Statements are cut where the SQL tokenizer sees a semicolon, so that one in a string or a comment
//! does not count. Nothing is parsed here: a mistake in the tenth statement shows when its turn comes.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// Longest piece of a statement that is shown to the user.
const TITLE_CHARS: usize = 60;

/// A position in a script. Lines and columns start at 1 and count characters, as in parser errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Byte in the text.
    pub offset: usize,
    /// Line of the text.
    pub line: u64,
    /// Character of the line.
    pub column: u64,
}

impl Place {
    /// Where every script begins.
    pub const START: Place = Place { offset: 0, line: 1, column: 1 };

    /// A location that the tokenizer counted from here, counted from the start of the script.
    fn resolve(&self, location: Location) -> Location {
        let column =
            if location.line == 1 { self.column + location.column - 1 } else { location.column };
        Location { line: self.line + location.line - 1, column }
    }

    fn advance_to(&mut self, text: &str, location: Location) {
        for character in text[self.offset..].chars() {
            if (self.line, self.column) >= (location.line, location.column) {
                break;
            }
            self.step(character);
        }
    }

    fn step(&mut self, character: char) {
        self.offset += character.len_utf8();
        if character == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }
}

/// One statement of a script, without its semicolon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The first character of the statement.
    pub begin: Place,
    /// The semicolon, or the end of the text.
    pub end: Place,
}

/// SQL to run, and what to call it in messages.
#[derive(Debug)]
pub struct Script {
    /// A file's path, `-c` or `stdin`.
    pub name: String,
    text: String,
}

impl Script {
    /// Takes SQL as it was read: a byte order mark and a `#!` line are not SQL.
    pub fn new(name: impl Into<String>, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = if text.starts_with("#!") {
            // The newline stays, so that line numbers do.
            text.find('\n').map_or("", |end| &text[end..])
        } else {
            text
        };
        Self { name: name.into(), text: text.to_owned() }
    }

    /// The statements from a place on.
    ///
    /// Text that cannot be tokenized (an open quote) comes last, as one statement that will fail.
    pub fn statements(&self, from: Place, dialect: &dyn Dialect) -> Vec<Statement> {
        let mut tokens: Vec<TokenWithSpan> = Vec::new();
        let outcome = Tokenizer::new(dialect, &self.text[from.offset..])
            .tokenize_with_location_into_buf(&mut tokens);
        let mut place = from;
        let mut begin = None;
        let mut statements = Vec::new();
        for TokenWithSpan { token, span } in tokens {
            match token {
                Token::Whitespace(_) | Token::EOF => continue,
                Token::SemiColon => {
                    place.advance_to(&self.text, from.resolve(span.start));
                    statements.extend(begin.take().map(|begin| Statement { begin, end: place }));
                    place.step(';');
                }
                _ if begin.is_none() => {
                    place.advance_to(&self.text, from.resolve(span.start));
                    begin = Some(place);
                }
                _ => {}
            }
        }
        if begin.is_none() && outcome.is_err() {
            begin = Some(place);
        }
        statements.extend(begin.map(|begin| {
            place.advance_to(&self.text, Location { line: u64::MAX, column: 0 });
            Statement { begin, end: place }
        }));
        statements
    }

    /// The text of a statement.
    pub fn text(&self, statement: &Statement) -> &str {
        &self.text[statement.begin.offset..statement.end.offset]
    }

    /// The statement as the only one in the script, so that a parser error points into the script.
    pub fn in_place(&self, statement: &Statement) -> String {
        let blank =
            |character: &str, count: u64| character.repeat(usize::try_from(count - 1).unwrap_or(0));
        let Place { line, column, .. } = statement.begin;
        blank("\n", line) + &blank(" ", column) + self.text(statement)
    }

    /// How a statement begins: what a message may say of it.
    ///
    /// It ends with the first line or before the first literal, because a seed, a key or a value of
    /// the data has no place in a log.
    pub fn title(&self, statement: &Statement) -> String {
        let text = self.text(statement).trim();
        let line = text.lines().next().unwrap_or_default();
        let mut title = String::new();
        let mut in_word = false;
        for character in line.chars().take(TITLE_CHARS) {
            if matches!(character, '\'' | '"' | '$') || (character.is_ascii_digit() && !in_word) {
                break;
            }
            in_word = character.is_alphanumeric() || character == '_';
            // A tab or an escape sequence would break the line that progress rewrites.
            title.push(if character.is_control() { ' ' } else { character });
        }
        if title.len() < text.len() {
            title.push('…');
        }
        title
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use super::*;

    fn split(text: &str) -> Vec<String> {
        let script = Script::new("test", text);
        let statements = script.statements(Place::START, &GenericDialect {});
        statements.iter().map(|statement| script.text(statement).to_owned()).collect()
    }

    #[test]
    fn semicolons_in_strings_and_comments_do_not_count() {
        let sql = "SELECT ';', \"a;b\" -- no; end\n, 'it''s;' /* ; */;;\n ;SELECT $$;$$";
        assert_eq!(
            split(sql),
            ["SELECT ';', \"a;b\" -- no; end\n, 'it''s;' /* ; */", "SELECT $$;$$"]
        );
    }

    #[test]
    fn wide_characters_do_not_shift_the_cut() {
        assert_eq!(
            split("SELECT 'Zürich 🏔'; SELECT\r\n 'é'\t;x"),
            ["SELECT 'Zürich 🏔'", "SELECT\r\n 'é'\t", "x"]
        );
    }

    #[test]
    fn an_open_quote_spoils_only_the_last_statement() {
        assert_eq!(
            split("SELECT 1;\nSELECT 'open; SELECT 2;"),
            ["SELECT 1", "SELECT 'open; SELECT 2;"]
        );
        assert_eq!(split("SELECT 1; 'open").len(), 2);
    }

    #[test]
    fn text_without_statements_has_none() {
        assert!(split("").is_empty());
        assert!(split("#!/usr/bin/env anonymize -f").is_empty());
        assert!(split("\u{feff}-- a comment\n;;\n/* another */").is_empty());
    }

    #[test]
    fn splitting_again_from_the_end_of_a_statement_finds_the_rest() {
        let script = Script::new("test", "#! line\nSELECT 1; SELECT 2;\n  SELECT 3");
        let all = script.statements(Place::START, &GenericDialect {});
        assert_eq!((all[1].begin.line, all[1].begin.column), (2, 11));
        assert_eq!(script.statements(all[0].end, &GenericDialect {}), all[1..]);
        assert_eq!(script.in_place(&all[2]), "\n\n  SELECT 3");
    }

    #[test]
    fn a_title_is_one_short_line_without_literals() {
        let title = |text: &str| {
            let script = Script::new("test", text);
            script.title(&script.statements(Place::START, &GenericDialect {})[0])
        };
        assert_eq!(title("SELECT\ta1 FROM t_2;"), "SELECT a1 FROM t_2");
        assert_eq!(title("SELECT a,\n b"), "SELECT a,…");
        assert_eq!(title("SELECT f(seed => 42)"), "SELECT f(seed => …");
        assert_eq!(title("SELECT a WHERE b = 'private'"), "SELECT a WHERE b = …");
        assert_eq!(title(&format!("SELECT {}", "x".repeat(200))).chars().count(), TITLE_CHARS + 1);
    }
}
