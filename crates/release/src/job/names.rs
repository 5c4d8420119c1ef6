//! Columns by the names that the rows have.

use datafusion::arrow::datatypes::Schema;

use super::Job;

impl Job {
    /// The job with every column as the rows spell it. A name means the column that is spelled so, or else the
    /// only one that differs in upper and lower case alone, as in SQL; what is neither is left to whoever looks
    /// for the column.
    pub(crate) fn spelled_as_in(&self, rows: &Schema) -> Self {
        let spelled = |name: &str| {
            let lower = name.to_lowercase();
            let mut alike =
                rows.fields().iter().filter(|field| field.name().to_lowercase() == lower);
            match (rows.field_with_name(name), alike.next(), alike.next()) {
                (Err(_), Some(only), None) => only.name().clone(),
                _ => name.to_owned(),
            }
        };
        let mut job = self.clone();
        job.anonymize.rename_columns(&spelled);
        job.output.partition_by.iter_mut().for_each(|name| *name = spelled(name));
        let losses = &mut job.checks.max_column_loss;
        *losses = std::mem::take(losses).into_iter().map(|(name, x)| (spelled(&name), x)).collect();
        job
    }
}
