//! `anonymize report`: a page about a release.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anonymize_release::Job;
use anonymize_release::job::{Checks, Input, Output};
use anonymize_release::report::{Source, manifest_of, options_of, report as page};
use clap::Args;
use datafusion_anonymize::{Hierarchy, Options as AnonymizeOptions};

use crate::options::Options;
use crate::progress::{Progress, say};
use crate::release::failure;
use crate::run::{Failure, audience};
use crate::session::Session;

/// What the page is about, and where it goes.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The original table: a file or a directory, local or in an object store [default: the input of --job]
    #[arg(value_name = "ORIGINAL")]
    pub original: Option<String>,

    /// The published table: a file, a directory of files or the output of a job [default: the output of --job]
    #[arg(value_name = "PUBLISHED")]
    pub published: Option<String>,

    /// The page
    #[arg(short, long, value_name = "PATH", default_value = "report.html")]
    pub output: PathBuf,

    /// The job of the release, which knows all the options below
    #[arg(long, value_name = "JOB.TOML")]
    pub job: Option<PathBuf>,

    /// Columns somebody could know about a person
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub quasi_identifiers: Vec<String>,

    /// Columns nobody should learn about a person
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub sensitive: Vec<String>,

    /// The fewest records that should look alike
    #[arg(long, value_name = "ROWS")]
    pub k: Option<i64>,

    /// The fewest different sensitive values of a group
    #[arg(long, value_name = "VALUES")]
    pub l: Option<i64>,

    /// The largest distance of a group from the whole table, from 0 to 1
    #[arg(long, value_name = "DISTANCE")]
    pub t: Option<f64>,

    /// The hierarchy of a column: 'age=intervals(5, 10)', 'zip=prefixes(3, 2)', 'birth=date_steps(month, year)' or 'education=levels.csv'
    #[arg(long, value_name = "COLUMN=HIERARCHY", value_parser = parse_hierarchy)]
    pub hierarchy: Vec<(String, Hierarchy)>,

    /// Values that fewer records have are shown together [default: k, and at least 10]
    #[arg(long, value_name = "ROWS")]
    pub threshold: Option<u64>,

    /// The heading [default: the name of the job or of the published table]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

/// Writes the page.
pub async fn report(options: &Options, arguments: &ReportArguments) -> Result<(), Failure> {
    if options.has_script() {
        return Err(Failure::Setup("report takes tables or a job; leave out -c and -f".to_owned()));
    }
    let session = Session::new(options).await.map_err(|error| Failure::Setup(error.to_string()))?;
    let source = source(&session, arguments).await?;
    let progress = Progress::start(audience(options), "report".to_owned());
    let written = page(&source, &session.context).await;
    drop(progress);
    let html = written.map_err(|error| failure("report", error))?;
    let shown = arguments.output.display();
    std::fs::write(&arguments.output, html)
        .map_err(|error| Failure::Statement(format!("cannot write {shown}: {error}")))?;
    if !options.quiet {
        say(&format!("{shown}: open it in a browser"));
    }
    Ok(())
}

async fn source(session: &Session, arguments: &ReportArguments) -> Result<Source, Failure> {
    let ReportArguments { original, published, threshold, title, .. } = arguments;
    let mut job = match &arguments.job {
        Some(path) => Job::read(path).map_err(|error| failure("report", error))?,
        None => job_of_arguments(session, arguments).await?,
    };
    if let Some(original) = original {
        job.inputs = BTreeMap::from([("original".to_owned(), input(original)?)]);
        job.query = None;
    }
    let published = match published {
        Some(path) => Some(absolute(path)?),
        None => None,
    };
    Ok(Source { job, published, threshold: *threshold, title: title.clone() })
}

/// A job that was never run: the options come from the command line, or from the release itself.
async fn job_of_arguments(session: &Session, arguments: &ReportArguments) -> Result<Job, Failure> {
    let (Some(_), Some(published)) = (&arguments.original, &arguments.published) else {
        return Err(Failure::Setup(
            "report needs two tables, or a job: write anonymize report original.parquet published.parquet \
             --quasi-identifiers age,zip, or anonymize report --job job.toml"
                .to_owned(),
        ));
    };
    let published = absolute(published)?;
    let release = manifest_of(&session.context, &published).await;
    let release = release.map_err(|error| failure("report", error))?;
    let (name, mut options) = match &release {
        Some(manifest) => {
            let options = options_of(manifest).map_err(|error| failure("report", error))?;
            (manifest.name.clone(), options)
        }
        None => (file_name(&published), AnonymizeOptions::default()),
    };
    if !arguments.quasi_identifiers.is_empty() {
        options.quasi_identifiers = arguments.quasi_identifiers.clone();
    }
    if !arguments.sensitive.is_empty() {
        options.sensitive = arguments.sensitive.clone();
    }
    options.k = arguments.k.or(options.k);
    options.l = arguments.l.or(options.l);
    options.t = arguments.t.or(options.t);
    options.hierarchies.extend(arguments.hierarchy.iter().cloned());
    let directory = std::env::current_dir()
        .map_err(|error| Failure::Setup(format!("there is no current directory: {error}")))?;
    let job = Job {
        name,
        query: None,
        inputs: BTreeMap::new(),
        anonymize: options,
        output: Output::new(published),
        checks: Checks::default(),
        series: None,
        directory,
    };
    if job.all_quasi_identifiers().is_empty() {
        return Err(Failure::Setup(
            "report: say what somebody could know, as in --quasi-identifiers age,zip, or name the job with --job"
                .to_owned(),
        ));
    }
    Ok(job)
}

fn input(path: &str) -> Result<Input, Failure> {
    Ok(Input { path: absolute(path)?, ..Input::default() })
}

/// Where the user is decides what a relative path means, whatever the job says. A directory ends with a slash.
fn absolute(path: &str) -> Result<String, Failure> {
    if path.contains("://") {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::Setup(format!("'{path}' is no path: {error}")))?;
    let slash = if absolute.is_dir() { "/" } else { "" };
    Ok(format!("{}{slash}", absolute.display().to_string().trim_end_matches('/')))
}

fn file_name(path: &str) -> String {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name).to_owned()
}

fn parse_hierarchy(text: &str) -> Result<(String, Hierarchy), String> {
    let help = "write column=intervals(5, 10), column=prefixes(3, 2), column=date_steps(month, year) or \
                column=levels.csv";
    let (column, steps) = text.split_once('=').ok_or(help)?;
    let parsed = match steps.strip_suffix(')').and_then(|steps| steps.split_once('(')) {
        None => Hierarchy::File(absolute(steps).map_err(|failure| failure.to_string())?),
        Some((function, items)) => {
            let items = items.split(',').map(|item| item.trim().trim_matches('\'').to_owned());
            match function.trim() {
                "intervals" => Hierarchy::intervals(numbers(items).ok_or(help)?),
                "prefixes" => Hierarchy::Prefixes(
                    items.map(|item| item.parse().ok()).collect::<Option<_>>().ok_or(help)?,
                ),
                "date_steps" => Hierarchy::Dates(
                    items.map(|item| item.parse().ok()).collect::<Option<_>>().ok_or(help)?,
                ),
                _ => return Err(help.to_owned()),
            }
        }
    };
    Ok((column.trim().to_owned(), parsed))
}

fn numbers(items: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let is_number = |item: &String| item.parse().is_ok_and(|number: f64| number.is_finite());
    items.map(|item| Some(item).filter(is_number)).collect()
}

#[cfg(test)]
mod tests {
    use datafusion_anonymize::DateStep;

    use super::*;

    #[test]
    fn hierarchies_are_written_as_in_sql() {
        let parsed = |text: &str| parse_hierarchy(text).map(|(_, hierarchy)| hierarchy);
        assert_eq!(parsed("zip=prefixes(3, 2)"), Ok(Hierarchy::Prefixes(vec![3, 2])));
        assert_eq!(
            parsed("birth=date_steps('month', year)"),
            Ok(Hierarchy::dates([DateStep::Month, DateStep::Year]))
        );
        assert!(
            matches!(parsed("age=intervals(0.5, 1)"), Ok(Hierarchy::Intervals(steps)) if steps.len() == 2)
        );
        assert!(matches!(parsed("education=levels.csv"), Ok(Hierarchy::File(_))));
        for wrong in ["age", "age=steps(5)", "zip=prefixes(a)", "age=intervals()"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
