//! The plans of a job: its release, and the reports about it.

use datafusion::common::TableReference;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_anonymize::{
    Anonymize, Hierarchy, Newcomers, Options, Place, Published, Relation, SeriesTables,
    plan_privacy_report, plan_utility_report,
};

use crate::error::{Error, Result};
use crate::job::{Job, Series};
use crate::session::reads_only;
use crate::sql::{LAST, LIVE, MEMBERS, ORIGINAL, PUBLISHED, PUBLISHED_SENSITIVE};
use crate::store::Location;

/// The release; of two tables the one that is named.
pub(crate) async fn anonymize(
    job: &Job,
    context: &SessionContext,
    publish: Option<&str>,
    newcomers: Newcomers,
) -> Result<DataFrame> {
    let mut options = options(job, context).await?;
    options.publish = publish.map(str::to_owned);
    if let Some(series) = &job.series {
        add_series(&mut options, series, newcomers, context).await?;
    }
    apply(job, context, options).await
}

/// A night of a series, with a column that says which rows are held whether it is published or not.
pub(crate) async fn marked(
    job: &Job,
    context: &SessionContext,
    newcomers: Newcomers,
) -> Result<DataFrame> {
    let mut options = options(job, context).await?;
    if let Some(series) = &job.series {
        add_series(&mut options, series, newcomers, context).await?;
    }
    options.held = Some(true);
    apply(job, context, options).await
}

async fn apply(job: &Job, context: &SessionContext, mut options: Options) -> Result<DataFrame> {
    if job.is_sliced() {
        options.bucket_id = Some(true);
    }
    let rows = context.table(TableReference::bare(ORIGINAL)).await;
    let release = rows.and_then(|rows| Anonymize::from(options).apply(rows));
    release.map_err(|error| Error::planning("anonymize", error))
}

/// The night of a series, by the tables that the session knows of it.
async fn add_series(
    options: &mut Options,
    series: &Series,
    newcomers: Newcomers,
    context: &SessionContext,
) -> Result<()> {
    let relation = async |name: &str| {
        let plan = table(context, name).await?;
        Ok::<_, Error>(Relation::Plan(Box::new(plan)))
    };
    let (members, last) = (relation(MEMBERS).await?, relation(LAST).await?);
    options.series = Some(SeriesTables { members, last });
    options.leavers = series.leavers.into();
    options.changes = series.changes.into();
    options.held = series.held.then_some(true);
    options.newcomers = newcomers.into();
    Ok(())
}

/// The check of what was written, cohort by cohort: two of them may publish the same quasi-identifiers.
pub(crate) async fn cohort_report(job: &Job, context: &SessionContext) -> Result<DataFrame> {
    let mut job = job.clone();
    job.anonymize.quasi_identifiers = vec!["cohort".to_owned()];
    job.anonymize.hierarchies.clear();
    privacy_report(&job, context).await
}

/// The check of what was written, against what the options promise.
pub(crate) async fn privacy_report(job: &Job, context: &SessionContext) -> Result<DataFrame> {
    let mut options = options(job, context).await?;
    if job.has_constraints() {
        options = Options { constraints: job.constraints(), ..Options::default() };
    }
    // Nobody can count persons in what is published.
    let of_persons = ["privacy_unit", "unit_share"];
    options.retain(|option| {
        option.is_in(Place::Sql("privacy_report")) && !of_persons.contains(&option.name)
    });
    let bucket = job.is_sliced().then_some("bucket_id");
    let plan = plan_privacy_report(options, published(job, context).await?, bucket, None);
    frame(context, plan)
}

/// What is left of the original in what was written; in a series, of the rows that are of tonight: others stand for an
/// original that is not there any more.
pub(crate) async fn utility_report(job: &Job, context: &SessionContext) -> Result<DataFrame> {
    let mut options = options(job, context).await?;
    options.quasi_identifiers = job.all_quasi_identifiers();
    let wanted: &[&str] = match job.has_two_tables() {
        true => &["quasi_identifiers", "sensitive", "sensitivity"],
        false => &["quasi_identifiers", "k", "hierarchies"],
    };
    options.retain(|option| wanted.contains(&option.name));
    let Options { quasi_identifiers, hierarchies, .. } = &mut options;
    hierarchies.retain(|(column, _)| quasi_identifiers.contains(column));
    let original = table(context, ORIGINAL).await?;
    let has_live = context.table_exist(TableReference::bare(LIVE));
    let published = match has_live.map_err(|error| Error::query("verifying", error))? {
        true => Published::Table(table(context, LIVE).await?),
        false => published(job, context).await?,
    };
    let plan = plan_utility_report(options, original, published, None);
    frame(context, plan)
}

/// The options of the job, with paths from where the job file is and relations looked up in its session.
async fn options(job: &Job, context: &SessionContext) -> Result<Options> {
    let mut options = job.anonymize.clone();
    for (_, hierarchy) in &mut options.hierarchies {
        if let Hierarchy::File(path) = hierarchy {
            *path = job.locate(path);
            // The operator reads it later, from a store that the session must know by then.
            Location::new(&context.runtime_env(), path)?;
        }
    }
    for lookup in options.relations() {
        let found = match &*lookup.relation {
            Relation::Named(name) => context.table(TableReference::bare(name.as_str())).await,
            Relation::Query(query) => context.sql_with_options(query, reads_only()).await,
            Relation::Plan(_) | Relation::Syntax(_) => continue,
        };
        let found = found.map_err(|error| Error::planning(&lookup.what, error))?;
        *lookup.relation = Relation::Plan(Box::new(found.into_unoptimized_plan()));
    }
    Ok(options)
}

async fn published(job: &Job, context: &SessionContext) -> Result<Published> {
    let published = table(context, PUBLISHED).await?;
    Ok(match job.has_two_tables() {
        true => Published::TwoTables {
            quasi_identifiers: published,
            sensitive: table(context, PUBLISHED_SENSITIVE).await?,
        },
        false => Published::Table(published),
    })
}

async fn table(context: &SessionContext, name: &str) -> Result<LogicalPlan> {
    let frame = context.table(TableReference::bare(name)).await;
    Ok(frame.map_err(|error| Error::query("verifying", error))?.into_unoptimized_plan())
}

fn frame(
    context: &SessionContext,
    plan: datafusion::error::Result<LogicalPlan>,
) -> Result<DataFrame> {
    let plan = plan.map_err(|error| Error::query("verifying", error))?;
    Ok(DataFrame::new(context.state(), plan))
}
