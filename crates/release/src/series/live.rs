//! The rows of a night that are of tonight, and what they lost.
//!
//! A cohort that is held stands for rows of an earlier night, and values that nobody has tonight are no loss of anything. So
//! the loss of a series is that of the rows of tonight's cohorts, and of the persons who are left out.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;

use super::figures::Figures;
use crate::error::{Error, Result};
use crate::manifest::Measure;
use crate::sql::{HELD, LIVE, PUBLISHED};

/// Makes the cohorts that are held known to the session.
pub(crate) fn register_held(context: &SessionContext, held: Int64Array) -> Result<()> {
    let failed = |error| Error::query("verifying the series", error);
    let schema = Arc::new(Schema::new(vec![Field::new("cohort", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(held)]);
    let batch = batch.map_err(|error| failed(error.into()))?;
    let table = MemTable::try_new(schema, vec![vec![batch]]).map_err(failed)?;
    context.register_table(TableReference::bare(HELD), Arc::new(table)).map_err(failed)?;
    Ok(())
}

/// Makes the published rows that are of tonight known to the session.
pub(crate) async fn register_live(context: &SessionContext) -> Result<()> {
    let failed = |error| Error::query("verifying the series", error);
    let query = format!(
        "SELECT published.* FROM {PUBLISHED} AS published LEFT ANTI JOIN {HELD} AS held \
         ON published.cohort = held.cohort"
    );
    let rows = context.sql(&query).await.map_err(failed)?;
    context.register_table(TableReference::bare(LIVE), rows.into_view()).map_err(failed)?;
    Ok(())
}

/// From measures of tonight's rows, for which all others were suppressed, those of the release.
pub(crate) fn loss_of_live(measures: &mut Vec<Measure>, figures: &Figures, published: u64) {
    let original = measures.iter().find(|measure| measure.measure == "rows_original");
    let original = original.and_then(|measure| measure.value).unwrap_or(0.0);
    let live = published.saturating_sub(figures.counted.rows_held) as f64;
    let left_out = (original - figures.persons as f64).max(0.0);
    // What is told of all rows of the release, and what depends on those that are not compared, is left out.
    measures.retain(|measure| ["rows_original", "ncp"].contains(&measure.measure.as_str()));
    for measure in measures.iter_mut().filter(|measure| measure.measure == "ncp") {
        let lost = measure.value.map(|share| share * original - (original - live));
        let of = live + left_out;
        measure.value = lost.filter(|_| of > 0.0).map(|lost| ((lost + left_out) / of).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use datafusion_anonymize::SeriesFigures;

    use super::*;

    #[test]
    fn the_loss_is_that_of_tonights_rows_and_of_those_who_wait() {
        let of = |measure: &str, value| Measure {
            measure: measure.to_owned(),
            column: None,
            value: Some(value),
            target: None,
            holds: None,
        };
        // 100 persons, 60 of them in live cohorts that lost a fifth, 30 in cohorts that are held, 10 wait.
        let mut measures =
            vec![of("rows_original", 100.0), of("ncp", (12.0 + 40.0) / 100.0), of("dm", 7.0)];
        let counted = SeriesFigures { rows_held: 35, ..SeriesFigures::default() };
        let figures = Figures { counted, persons: 90, cohorts: 0, cohorts_ever: 0 };
        loss_of_live(&mut measures, &figures, 95);
        assert_eq!(measures.len(), 2);
        let found = measures[1].value.unwrap_or(0.0);
        assert!((found - (12.0 + 10.0) / 70.0).abs() < 1e-9, "{found}");
    }
}
