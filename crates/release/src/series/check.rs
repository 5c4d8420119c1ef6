//! A second look at a night: what was written, compared with what the series knows. Plain SQL over the files, none of the
//! code that made them.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use datafusion_anonymize::SeriesFigures;

use super::figures::Figures;
use super::tonight::Tonight;
use crate::error::{Error, Result};
use crate::job::Job;
use crate::manifest::Check;
use crate::plan::cohort_report;
use crate::progress::Observer;
use crate::sql::{HELD, LAST, MEMBERS, NEWCOMERS, PUBLISHED, identifier};
use crate::verify::{Findings, Limit, broken_promise, report};

/// The largest share of new and of missing persons, where the job names none: a table whose keys were changed is full of
/// strangers, and grouping them again would put everybody into a second cohort.
const DEFAULT_LIMIT: f64 = 0.5;

/// What a second look has at hand: the job, and a session with the tables that were written.
pub(crate) struct SecondLook<'a> {
    pub(crate) job: &'a Job,
    pub(crate) context: &'a SessionContext,
    pub(crate) observer: &'a dyn Observer,
}

impl Tonight {
    /// Adds to the findings what does not hold of the series, and counts its cohorts.
    pub(crate) async fn verify(
        &self,
        look: &SecondLook<'_>,
        figures: &mut Figures,
        findings: &mut Findings,
    ) -> Result<()> {
        let SecondLook { job, context, observer } = *look;
        let unmet = &mut findings.unmet;
        check_persons(context, unmet).await?;
        check_cohorts(job, context, figures, unmet).await?;
        check_hulls(job, context, unmet).await?;
        check_held(context, figures, unmet).await?;
        for measure in report(cohort_report(job, context).await?, observer).await? {
            // Cohorts that are held were compared with the table of their own night.
            if measure.is_broken() && measure.measure != "t" {
                unmet.push(format!("in cohorts, {}", broken_promise(&measure)));
            }
        }
        for (check, advice) in self.limits(job, figures) {
            if !check.holds {
                let value = check.value.map_or("unknown".to_owned(), |value| value.to_string());
                unmet.push(format!(
                    "{} = {} is not met: it is {value}; {advice}",
                    check.check, check.limit
                ));
            }
            findings.checks.push(check);
        }
        Ok(())
    }

    /// The limits of the night, each with what to do if it is not kept.
    fn limits(&self, job: &Job, figures: &Figures) -> Vec<(Check, &'static str)> {
        let checks = &job.checks;
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let at_most = |check, limit| Limit { check, measure: check, limit, is_minimum: false };
        let mut limits = Vec::new();
        // On the first night everybody is new.
        if let Some(last) = self.before.nights.last() {
            let SeriesFigures { persons_known, persons_gone, persons_new, .. } = figures.counted;
            let known = persons_known - persons_gone;
            let tonight = known + persons_new;
            // Those who waited were new on the night before.
            let new = persons_new.saturating_sub(last.waiting);
            let limit = at_most("max_new", checks.max_new.unwrap_or(DEFAULT_LIMIT));
            limits.push((
                limit.judge(None, share(new, tonight).or(Some(0.0))),
                "if the keys of persons have changed, bring the old ones back; if so many persons are new, write a larger \
                 max_new in [checks]",
            ));
            let gone = last.persons.saturating_sub(known);
            let limit = at_most("max_gone", checks.max_gone.unwrap_or(DEFAULT_LIMIT));
            limits.push((
                limit.judge(None, share(gone, last.persons).or(Some(0.0))),
                "if the keys of persons have changed or rows are missing, bring them back; if so many persons have left, \
                 write a larger max_gone in [checks]",
            ));
        }
        if let Some(limit) = checks.min_live {
            let limit = Limit { check: "min_live", measure: "min_live", limit, is_minimum: true };
            let live = share(figures.live(), figures.cohorts_ever).or(Some(1.0));
            limits.push((
                limit.judge(None, live),
                "another series is due: --new-series starts it and says what that costs",
            ));
        }
        limits
    }
}

/// Nobody is in two cohorts.
async fn check_persons(context: &SessionContext, unmet: &mut Vec<String>) -> Result<()> {
    let query = format!(
        "SELECT (SELECT count(*) FROM (SELECT person FROM {NEWCOMERS} GROUP BY person HAVING count(*) > 1)) AS twice,
                (SELECT count(*) FROM {NEWCOMERS} AS n JOIN {MEMBERS} AS m ON n.person = m.person) AS known"
    );
    let [twice, known] = row(context, &query).await?;
    if twice + known > 0 {
        unmet.push(format!("{} persons would be in two cohorts", twice + known));
    }
    Ok(())
}

/// Every cohort is whole, none is lost and none comes back.
async fn check_cohorts(
    job: &Job,
    context: &SessionContext,
    figures: &mut Figures,
    unmet: &mut Vec<String>,
) -> Result<()> {
    let query = format!(
        "WITH known AS (
           SELECT cohort, count(*) AS persons, min(fresh) AS oldest, max(fresh) AS newest
           FROM (SELECT cohort, 0 AS fresh FROM {MEMBERS} UNION ALL SELECT cohort, 1 AS fresh FROM {NEWCOMERS})
           GROUP BY cohort),
         shown AS (SELECT cohort, count(*) AS persons FROM {PUBLISHED} GROUP BY cohort),
         shown_last AS (SELECT cohort FROM {LAST} GROUP BY cohort),
         compared AS (
           SELECT known.cohort AS known, known.persons AS members, oldest, newest, shown.cohort AS shown,
                  shown.persons AS published, coalesce(known.cohort, shown.cohort) AS cohort
           FROM known FULL JOIN shown ON known.cohort = shown.cohort)
         SELECT count(*) FILTER (WHERE known IS NULL),
                count(*) FILTER (WHERE published <> members),
                count(*) FILTER (WHERE oldest <> newest),
                count(*) FILTER (WHERE shown IS NULL AND newest = 1),
                count(*) FILTER (WHERE shown IS NULL AND shown_last.cohort IS NOT NULL),
                count(*) FILTER (WHERE shown IS NOT NULL AND newest = 0 AND shown_last.cohort IS NULL),
                count(*) FILTER (WHERE published < {k}),
                count(shown), count(known)
         FROM compared LEFT JOIN shown_last ON compared.cohort = shown_last.cohort",
        k = job.anonymize.k.unwrap_or(i64::MAX)
    );
    let [unknown, broken, grown, lost_new, lost, back, small, published, ever] =
        row(context, &query).await?;
    let lost = if job.withdraws() { 0 } else { lost };
    for (cohorts, what) in [
        (unknown, "are published and the state does not know them"),
        (broken, "are not published whole"),
        (grown, "have new members"),
        (lost_new, "are new in the state and not in the release"),
        (lost, "of the last release are missing"),
        (back, "were withdrawn and came back"),
        (small, "have fewer than k members"),
    ] {
        if cohorts > 0 {
            unmet.push(format!("{cohorts} cohorts {what}"));
        }
    }
    (figures.cohorts, figures.cohorts_ever) = (published, ever);
    Ok(())
}

/// All rows of a cohort publish the same quasi-identifiers.
async fn check_hulls(job: &Job, context: &SessionContext, unmet: &mut Vec<String>) -> Result<()> {
    let columns: Vec<String> =
        job.all_quasi_identifiers().iter().map(|name| identifier(name)).collect();
    let query = format!(
        "SELECT count(*) FROM (
           SELECT cohort FROM (SELECT DISTINCT cohort, {} FROM {PUBLISHED}) GROUP BY cohort HAVING count(*) > 1)",
        columns.join(", ")
    );
    let [several] = row(context, &query).await?;
    if several > 0 {
        unmet.push(format!("{several} cohorts publish different quasi-identifiers"));
    }
    Ok(())
}

/// Cohorts that are held repeat their rows.
async fn check_held(
    context: &SessionContext,
    figures: &Figures,
    unmet: &mut Vec<String>,
) -> Result<()> {
    let [held] = row(context, &format!("SELECT count(*) FROM {HELD}")).await?;
    if held != figures.counted.cohorts_held {
        let counted = figures.counted.cohorts_held;
        unmet.push(format!("{held} cohorts are marked as held and {counted} were counted"));
    }
    if held == 0 {
        return Ok(());
    }
    let published = context.table(TableReference::bare(PUBLISHED)).await;
    let published = published.map_err(|error| Error::query("verifying the series", error))?;
    let names = published.schema().fields().iter().map(|field| field.name());
    // The mark itself may have come since.
    let columns: Vec<String> =
        names.filter(|name| *name != "held").map(|name| identifier(name)).collect();
    let of_published: Vec<String> =
        columns.iter().map(|column| format!("published.{column}")).collect();
    let query = format!(
        "SELECT count(*) FROM (
           SELECT {} FROM {PUBLISHED} AS published LEFT SEMI JOIN {HELD} AS held
             ON published.cohort = held.cohort
           EXCEPT SELECT {} FROM {LAST})",
        of_published.join(", "),
        columns.join(", ")
    );
    let [others] = row(context, &query).await?;
    if others > 0 {
        unmet.push(format!(
            "{others} different rows of held cohorts are not those of the last release"
        ));
    }
    Ok(())
}

/// The counts in the only row of a query.
pub(super) async fn row<const N: usize>(context: &SessionContext, query: &str) -> Result<[u64; N]> {
    let failed = |error| Error::query("verifying the series", error);
    let batches = context.sql(query).await.map_err(failed)?.collect().await.map_err(failed)?;
    let mut counts = [0; N];
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        for (count, column) in counts.iter_mut().zip(batch.columns()) {
            *count = column.as_primitive::<Int64Type>().value(0).try_into().unwrap_or(u64::MAX);
        }
    }
    Ok(counts)
}
