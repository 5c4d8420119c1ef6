//! The hierarchy of every quasi-identifier.

use std::collections::HashMap;

use datafusion::common::{Column, DFSchema, ExprSchema};
use datafusion::logical_expr::LogicalPlan;

use super::{Hierarchy, Options, find_column};
use crate::columnar::{Automatic, Kind};
use crate::engine::options::{HierarchySource, QuasiIdentifier};
use crate::error::{Error, Result};
use crate::hierarchy::{date_steps, float_intervals, prefixes};

impl Options {
    pub(in crate::engine) fn with_hierarchies(
        self,
        quasi_identifiers: &[Column],
        input: &DFSchema,
        tables: &mut Vec<LogicalPlan>,
    ) -> Result<Vec<QuasiIdentifier>> {
        let mut given: HashMap<Column, HierarchySource> = HashMap::new();
        for (name, hierarchy) in self.hierarchies {
            let column = find_column(input, "hierarchies", &name)?;
            if !quasi_identifiers.contains(&column) {
                return Err(Error::invalid(format!(
                    "option 'hierarchies': column '{name}' is not a quasi-identifier; only those are \
                     generalized"
                )));
            }
            let source = source(hierarchy, tables)?;
            check_source(&source, &column, input)?;
            if given.insert(column, source).is_some() {
                return Err(Error::invalid(format!(
                    "option 'hierarchies': column '{name}' has two hierarchies; keep one"
                )));
            }
        }
        let with_hierarchy = |column: &Column| {
            let field =
                input.field_from_column(column).map_err(|_| Error::bug("a column vanished"))?;
            Kind::of(field.data_type(), &column.name)?;
            Ok(QuasiIdentifier { column: column.clone(), hierarchy: given.remove(column) })
        };
        quasi_identifiers.iter().map(with_hierarchy).collect()
    }
}

/// A hierarchy by type for every quasi-identifier that has none.
pub(super) fn add_automatic_hierarchies(
    quasi_identifiers: &mut [QuasiIdentifier],
    input: &DFSchema,
) -> Result<()> {
    for qi in quasi_identifiers.iter_mut().filter(|qi| qi.hierarchy.is_none()) {
        let field =
            input.field_from_column(&qi.column).map_err(|_| Error::bug("a column vanished"))?;
        let kind = Kind::of(field.data_type(), &qi.column.name)?;
        let automatic = Automatic::of(field.data_type(), kind);
        qi.hierarchy = Some(HierarchySource::Automatic(automatic));
    }
    Ok(())
}

fn source(hierarchy: Hierarchy, tables: &mut Vec<LogicalPlan>) -> Result<HierarchySource> {
    Ok(match hierarchy {
        Hierarchy::Intervals(steps) => HierarchySource::Intervals(steps),
        Hierarchy::Prefixes(kept) => HierarchySource::Prefixes(kept),
        Hierarchy::Dates(steps) => HierarchySource::Dates(steps),
        Hierarchy::File(path) => HierarchySource::File(path),
        Hierarchy::Table(relation) => {
            tables.push(relation.into_plan()?);
            HierarchySource::Table(tables.len() - 1)
        }
    })
}

/// Finds mistakes in a hierarchy that do not depend on the data.
fn check_source(source: &HierarchySource, column: &Column, input: &DFSchema) -> Result<()> {
    let name = &column.name;
    let field = input.field_from_column(column).map_err(|_| Error::bug("a column vanished"))?;
    let kind = Kind::of(field.data_type(), name)?;
    let unfit = |function: &str, needs: &str, instead: &str| {
        Err(Error::invalid(format!(
            "option 'hierarchies': {function} needs {needs} and column '{name}' is of type {}; use \
             {instead}",
            field.data_type()
        )))
    };
    let in_column = |error: Error| Error::invalid(format!("hierarchy of column '{name}': {error}"));
    match source {
        HierarchySource::Intervals(steps) => {
            if kind == Kind::Instant {
                return unfit("intervals()", "numbers", "date_steps('month', 'year')");
            }
            if matches!(kind, Kind::Text | Kind::Boolean | Kind::Span) {
                return unfit("intervals()", "numbers", "prefixes(…) or a table");
            }
            float_intervals(&[], steps).map(|_| ()).map_err(in_column)
        }
        HierarchySource::Prefixes(kept) => {
            if !matches!(kind, Kind::Text | Kind::Integer) {
                return unfit("prefixes()", "text", "intervals(…), date_steps(…) or a table");
            }
            prefixes(&[], kept).map(|_| ()).map_err(in_column)
        }
        HierarchySource::Dates(steps) => {
            if kind != Kind::Instant {
                return unfit(
                    "date_steps()",
                    "dates or timestamps",
                    "intervals(…), prefixes(…) or a table",
                );
            }
            date_steps(&[], steps).map(|_| ()).map_err(in_column)
        }
        HierarchySource::File(_) | HierarchySource::Table(_) | HierarchySource::Automatic(_) => {
            Ok(())
        }
    }
}
