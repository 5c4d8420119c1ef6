//! Type-erased visitors of parsed statements, so that the walk is compiled once and not once per visitor.
//!
//! The parser's tree has some five hundred types and its walk is generic over the visitor: each visitor that is handed
//! to it directly is compiled for all of them, which takes longer than the rest of this crate.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};

/// Walks through a statement until the visitor breaks. Only the methods that [`Erased`] forwards are called.
pub fn visit(statement: &Statement, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    Visit::visit(statement, &mut Erased(visitor))
}

/// Lets a visitor change statements until it fails. Only the methods that [`ErasedMut`] forwards are called.
pub fn visit_mut(
    statements: &mut Vec<Statement>,
    visitor: &mut dyn VisitorMut<Break = PgWireError>,
) -> PgWireResult<()> {
    match VisitMut::visit(statements, &mut ErasedMut(visitor)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A part of a statement that [`any`] tests.
pub enum Part<'a> {
    Relation(&'a ObjectName),
    Expr(&'a Expr),
}

/// Whether the statement has a part for which the test holds.
pub fn any(statement: &Statement, test: impl Fn(Part<'_>) -> bool) -> bool {
    visit(statement, &mut Any(test)).is_break()
}

struct Any<F>(F);

impl<F: Fn(Part<'_>) -> bool> Visitor for Any<F> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if (self.0)(Part::Relation(relation)) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if (self.0)(Part::Expr(expr)) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Erased<'a>(&'a mut dyn Visitor<Break = ()>);

impl Visitor for Erased<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.0.pre_visit_select(select)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0.pre_visit_relation(relation)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.pre_visit_expr(expr)
    }
}

struct ErasedMut<'a>(&'a mut dyn VisitorMut<Break = PgWireError>);

impl VisitorMut for ErasedMut<'_> {
    type Break = PgWireError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PgWireError> {
        self.0.pre_visit_query(query)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PgWireError> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PgWireError> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<PgWireError> {
        self.0.pre_visit_value(value)
    }
}
