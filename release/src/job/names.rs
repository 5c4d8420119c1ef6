//! Columns by the names that the rows have.

use datafusion::arrow::datatypes::Schema;

use super::{AnonymizeOptions, Job};

impl Job {
    /// The job with every column as the rows spell it. A name means the column that is spelled so, or else the
    /// only one that differs in upper and lower case alone, as in SQL; what is neither is left to whoever looks
    /// for the column.
    pub(crate) fn spelled_as_in(&self, rows: &Schema) -> Self {
        let spelled = |name: &String| {
            let lower = name.to_lowercase();
            let mut alike =
                rows.fields().iter().filter(|field| field.name().to_lowercase() == lower);
            match (rows.field_with_name(name), alike.next(), alike.next()) {
                (Err(_), Some(only), None) => only.name().clone(),
                _ => name.clone(),
            }
        };
        let mut job = self.clone();
        let AnonymizeOptions {
            quasi_identifiers,
            sensitive,
            identifiers,
            keep,
            privacy_unit,
            constraints,
            weights,
            hierarchies,
            ..
        } = &mut job.anonymize;
        let constrained = constraints.iter_mut().flat_map(|constraint| &mut constraint.columns);
        let listed =
            [quasi_identifiers, sensitive, identifiers, keep, &mut job.output.partition_by];
        let listed = listed.into_iter().flatten().chain(privacy_unit).chain(constrained);
        listed.for_each(|name| *name = spelled(name));
        *weights =
            std::mem::take(weights).into_iter().map(|(name, x)| (spelled(&name), x)).collect();
        *hierarchies =
            std::mem::take(hierarchies).into_iter().map(|(name, x)| (spelled(&name), x)).collect();
        let losses = &mut job.checks.max_column_loss;
        *losses = std::mem::take(losses).into_iter().map(|(name, x)| (spelled(&name), x)).collect();
        job
    }
}
