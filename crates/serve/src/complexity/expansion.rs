//! How large a statement becomes when its named queries are put in place.
//!
//! Every use of a query of `WITH` is planned as if it were written out. A few lines that use each name twice become
//! more than any machine can plan.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Select, Statement, Visitor};
use datafusion_postgres::pgwire::error::PgWireResult;

use super::too_complex;
use crate::visit::visit;

/// Tables, queries and selects of a statement, all of them written out.
const MOST_RELATIONS: u64 = 500;

/// Refuses statements that become too large.
pub fn check(statement: &Statement) -> PgWireResult<()> {
    let mut count = Count { open: vec![Open::default()] };
    let _ = visit(statement, &mut count);
    let relations = count.open.first().map_or(0, |outermost| outermost.relations);
    if relations > MOST_RELATIONS {
        return Err(too_complex(format!(
            "a statement has at most {MOST_RELATIONS} tables and queries, those of WITH counted at every use"
        )));
    }
    Ok(())
}

/// A query that is being looked at.
#[derive(Default)]
struct Open {
    relations: u64,
    /// What the names of its `WITH` stand for.
    named: HashMap<String, u64>,
    /// Where the queries of its `WITH` are, to tell them from others.
    definitions: HashMap<usize, String>,
}

struct Count {
    open: Vec<Open>,
}

fn address(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

impl Count {
    fn add(&mut self, relations: u64) {
        if let Some(innermost) = self.open.last_mut() {
            innermost.relations = innermost.relations.saturating_add(relations);
        }
    }

    fn named(&self, name: &str) -> Option<u64> {
        let name = name.to_lowercase();
        self.open.iter().rev().find_map(|open| open.named.get(&name)).copied()
    }
}

impl Visitor for Count {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let mut open = Open { relations: 1, ..Open::default() };
        for definition in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = definition.alias.name.value.to_lowercase();
            open.definitions.insert(address(&definition.query), name);
        }
        self.open.push(open);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(done) = self.open.pop() else { return ControlFlow::Continue(()) };
        if let Some(outer) = self.open.last_mut() {
            match outer.definitions.get(&address(query)) {
                // Counted where it is used, and once where it is not.
                Some(name) => {
                    outer.named.insert(name.clone(), done.relations);
                    outer.relations = outer.relations.saturating_add(1);
                }
                None => outer.relations = outer.relations.saturating_add(done.relations),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, _select: &Select) -> ControlFlow<()> {
        self.add(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let relations = self.named(&relation.to_string().replace('"', "")).unwrap_or(1);
        self.add(relations);
        ControlFlow::Continue(())
    }

    // The input of a table function is a plain name.
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && let Some(relations) = self.named(&name.value)
        {
            self.add(relations);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion_postgres::datafusion_pg_catalog::sql::PostgresCompatibilityParser;

    use super::*;

    fn passes(sql: &str) -> bool {
        check(&PostgresCompatibilityParser::new().parse(sql).unwrap()[0]).is_ok()
    }

    fn doubling(levels: usize, uses: &str) -> String {
        let mut sql = "WITH c0 AS (SELECT * FROM v)".to_owned();
        for level in 1..=levels {
            let before = format!("c{}", level - 1);
            sql += &format!(", c{level} AS ({})", uses.replace('?', &before));
        }
        format!("{sql} SELECT * FROM c{levels}")
    }

    #[test]
    fn what_doubles_is_refused_however_it_is_written() {
        for uses in [
            "SELECT a.age FROM ? a, ? b",
            "SELECT * FROM ? UNION ALL SELECT * FROM ?",
            "SELECT * FROM ? WHERE age IN (SELECT age FROM ?)",
            "SELECT (SELECT max(age) FROM ?) AS age FROM ?",
            "WITH d AS (SELECT * FROM ?) SELECT * FROM d UNION SELECT * FROM d",
            "SELECT * FROM anonymize(?, k => 2) UNION SELECT * FROM anonymize(?, k => 2)",
        ] {
            assert!(passes(&doubling(3, uses)), "{uses}");
            assert!(!passes(&doubling(40, uses)), "{uses}");
        }
        assert!(passes(&doubling(80, "SELECT * FROM ? WHERE age > '1'")));
        assert!(passes("SELECT a FROM v JOIN w USING (id) WHERE a IN (SELECT b FROM x)"));
    }
}
