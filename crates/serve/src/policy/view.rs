//! `[views.NAME]`: what is published, and whether its releases are a series.

use std::collections::BTreeMap;
use std::path::Path;

use anonymize_release::Job;
use anonymize_release::job::{Checks, Input, Output, Series};
use datafusion_anonymize::{Family, MethodOption, Options};
use serde::Deserialize;

/// A published view.
#[derive(Debug, Clone)]
pub struct View {
    /// The job that makes a release of it.
    pub job: Job,
}

/// `[views.NAME]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    /// The sources that the query names; all of them without it.
    sources: Option<Vec<String>>,
    query: Option<String>,
    anonymize: Options,
    #[serde(default)]
    checks: Checks,
    series: Option<Series>,
}

impl Section {
    pub(super) fn job(
        self,
        name: &str,
        sources: &BTreeMap<String, Input>,
        directory: &Path,
        state: &Path,
    ) -> Result<Job, String> {
        check_name(name)?;
        let mut inputs = sources.clone();
        if let Some(wanted) = &self.sources {
            if let Some(unknown) = wanted.iter().find(|source| !sources.contains_key(*source)) {
                return Err(format!("there is no [sources.{unknown}]"));
            }
            inputs.retain(|source, _| wanted.contains(source));
        }
        if inputs.is_empty() {
            return Err(match self.sources {
                Some(_) => {
                    "sources names none: name those of the query, or leave it out for all of them"
                }
                None => "there is no source: write [sources.NAME] with path = \"…\"",
            }
            .to_owned());
        }
        let mut output = Output::new(format!("{}/", state.join(name).display()));
        // The release before the current one stays for the queries that read it.
        output.keep = 1;
        let job = Job {
            name: name.to_owned(),
            query: self.query,
            inputs,
            anonymize: self.anonymize,
            output,
            checks: self.checks,
            series: self.series,
            directory: directory.to_owned(),
        };
        job.check().map_err(|error| error.to_string())?;
        if job.has_two_tables() {
            let method = job.method().map_err(|error| error.to_string())?;
            return Err(format!(
                "method '{method}' publishes two tables that must not be joined; a view is one table: choose another \
                 method"
            ));
        }
        Ok(job)
    }
}

/// Whether the state of a series is where nobody else reads or writes: clients' queries read below the service's own
/// directory, and refreshes read the sources.
pub(super) fn check_series(
    job: &Job,
    sources: &BTreeMap<String, Input>,
    service: &Path,
    views: &BTreeMap<String, View>,
) -> Result<(), String> {
    let Some(Series { state, .. }) = &job.series else { return Ok(()) };
    let is_shared = |place: &str| job.are_in_one_another(state, place);
    if is_shared(&service.display().to_string()) {
        return Err(format!(
            "series: the state '{state}' and the state of [server] are in one another: queries of clients read from \
             there; choose a place that nobody else can read"
        ));
    }
    if let Some((source, _)) = sources.iter().find(|(_, source)| is_shared(&source.path)) {
        return Err(format!(
            "series: the state '{state}' and [sources.{source}] are in one another: choose another place"
        ));
    }
    let mut others =
        views.iter().filter_map(|(name, view)| Some((name, view.job.series.as_ref()?)));
    match others.find(|(_, series)| is_shared(&series.state)) {
        None => Ok(()),
        Some((other, _)) => Err(format!(
            "series: the state '{state}' and that of [views.{other}.series] are in one another: give every series a \
             place of its own"
        )),
    }
}

impl View {
    /// What somebody should know of a view that is refreshed and is no series.
    pub(super) fn warning(&self, name: &str) -> Option<String> {
        let Job { series, anonymize, .. } = &self.job;
        if series.is_some() {
            return None;
        }
        let mut missing = Vec::new();
        if anonymize.privacy_unit.is_none() {
            missing.push("privacy_unit = \"the column that names a person\"".to_owned());
        }
        if anonymize.seed.is_none() {
            missing.push("a seed".to_owned());
        }
        if self.job.method().is_ok_and(|method| method.family() != Family::Classes) {
            let methods = MethodOption::Series.method_names();
            missing.push(format!("a method that forms classes ({methods})"));
        }
        let options = match missing.is_empty() {
            true => String::new(),
            false => format!(", and in [views.{name}.anonymize] {}", missing.join(" and ")),
        };
        Some(format!(
            "view {name}: it is refreshed and is no series, so its releases can be compared, and who compares them may \
             narrow a person down to fewer than k. Write [views.{name}.series] with state = \"…\"{options}. A view that is \
             never refreshed needs none: poll_seconds = 0, and nobody who may_refresh"
        ))
    }
}

/// What a job says of its file, in the words of the policy.
pub fn in_policy(view: &str, message: &str) -> String {
    const ANOTHER_OUTPUT: [&str; 2] =
        ["Give the series an output of its own", "give the job an output of its own"];
    let mut message = message
        .replace("[anonymize", &format!("[views.{view}.anonymize"))
        .replace("[series]", &format!("[views.{view}.series]"))
        .replace("[checks]", &format!("[views.{view}.checks]"))
        .replace("[input.", "[sources.")
        .replace("--new-series", &format!("anonymize serve --new-series {view}"));
    for phrase in ANOTHER_OUTPUT {
        message = message.replace(phrase, &format!("{}ive the view another name", &phrase[..1]));
    }
    message
}

/// Names of views never need quotes, so that no client has to know how they were written.
fn check_name(name: &str) -> Result<(), String> {
    let starts = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !starts || !name.chars().all(plain) {
        return Err("write the name in lower-case letters, digits and _".to_owned());
    }
    if name.starts_with("pg_") {
        return Err("names that start with pg_ belong to the catalog; choose another".to_owned());
    }
    Ok(())
}
