//! `anonymize release job.toml`: the job on the command line.

use std::sync::{Arc, Mutex, PoisonError};

use anonymize_release::manifest::{Check, Manifest, Measure};
use anonymize_release::{
    Error, Job, NEW_SERIES_COST, Observer, Outcome, Phase, RunOptions, run_until,
};
use datafusion::physical_plan::ExecutionPlan;

use crate::interrupt;
use crate::options::{Options, ReleaseArguments};
use crate::progress::{Audience, Progress, say, warn};
use crate::run::{Failure, audience};
use crate::session::Session;

/// Runs the job and says what became of it.
pub async fn release(options: &Options, arguments: &ReleaseArguments) -> Result<(), Failure> {
    if options.has_script() {
        return Err(Failure::Setup(
            "release takes a job file; write the query there instead of -c or -f".to_owned(),
        ));
    }
    let job = Job::read(&arguments.job).map_err(|error| failure("the job", error))?;
    let session = Session::new(options).await.map_err(|error| Failure::Setup(error.to_string()))?;
    let audience = audience(options);
    if job.anonymize.seed.is_none() && !options.quiet {
        warn(&format!(
            "{}: no seed, so every run groups ties in another way; who compares two releases of the same rows \
             learns more than from one. Write seed = {{ env = \"…\" }}",
            job.name
        ));
    }
    let observer = Arc::new(Shown { audience, name: job.name.clone(), progress: Mutex::new(None) });
    let told = Arc::clone(&observer);
    let ReleaseArguments { dry_run, new_series, .. } = *arguments;
    if new_series && !options.quiet {
        warn(&format!("{}: another series begins; {NEW_SERIES_COST}", job.name));
    }
    let run_options = RunOptions { dry_run, new_series, observer: told };
    // Who asks once waits for the clean-up, however long it takes.
    let interrupt = interrupt::watch(None);
    let stopped = interrupt.notified();
    let outcome = run_until(&job, &session.context, run_options, stopped).await;
    observer.hide();
    let outcome = outcome.map_err(|error| failure(&job.name, error))?;
    if !options.quiet {
        tell(&job, &outcome);
    }
    for note in &outcome.notes {
        warn(&format!("{}: {note}", job.name));
    }
    Ok(())
}

/// What the program says and how it ends.
pub fn failure(name: &str, error: Error) -> Failure {
    match error {
        Error::Job(message) => Failure::Setup(message),
        Error::Cancelled => Failure::Interrupted(name.to_owned()),
        other => Failure::Statement(format!("{name}: {other}")),
    }
}

fn tell(job: &Job, outcome: &Outcome) {
    let Manifest { name, release, counts, tables, checks, measures, series, .. } =
        &outcome.manifest;
    if outcome.published {
        say(&format!("{name}: release {release} is published at {}", job.output.path));
    } else {
        say(&format!("{name}: dry run, nothing was published"));
    }
    say(&format!(
        "{} rows read, {} published, {} suppressed",
        counts.rows_original, counts.rows_published, counts.rows_suppressed
    ));
    if let Some(series) = series {
        let live = series.cohorts - series.cohorts_held;
        say(&format!(
            "series {}, night {}: {live} cohorts live, {} held, {} persons wait",
            series.id, series.night, series.cohorts_held, series.persons_waiting
        ));
    }
    if outcome.published {
        for table in tables {
            let bytes: u64 = table.files.iter().map(|file| file.bytes).sum();
            say(&format!(
                "{}: {} files, {bytes} bytes in {}",
                table.name,
                table.files.len(),
                table.location
            ));
        }
    } else {
        measures.iter().for_each(tell_measure);
    }
    checks.iter().for_each(tell_check);
}

fn tell_measure(measure: &Measure) {
    let Measure { measure: name, column, value, target, .. } = measure;
    let value = value.map_or("cannot be told".to_owned(), number);
    let column = column.as_ref().map(|column| format!(" of {column}")).unwrap_or_default();
    let target =
        target.map(|target| format!(" (asked for: {})", number(target))).unwrap_or_default();
    say(&format!("  {name}{column}: {value}{target}"));
}

fn tell_check(check: &Check) {
    let column = check.column.as_ref().map(|column| format!(" of {column}")).unwrap_or_default();
    let value = check.value.map_or("cannot be told".to_owned(), number);
    say(&format!("check {}{column} = {} holds: {value}", check.check, number(check.limit)));
}

/// Whole numbers without a point, others with four digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else {
        format!("{value:.4}")
    }
}

/// Shows where a run is: one line that is rewritten on a terminal, plain lines elsewhere.
struct Shown {
    audience: Audience,
    name: String,
    progress: Mutex<Option<Progress>>,
}

impl Shown {
    fn hide(&self) {
        drop(self.progress.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Observer for Shown {
    fn phase(&self, phase: Phase) {
        let number = Phase::ALL.iter().position(|other| *other == phase).unwrap_or(0) + 1;
        let title = format!("{}: {phase} ({number} of {})", self.name, Phase::ALL.len());
        self.hide();
        if self.audience == Audience::Log {
            warn(&title);
        }
        let progress = Progress::start(self.audience, title);
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
    }

    fn running(&self, plan: &Arc<dyn ExecutionPlan>) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = progress.as_ref() {
            progress.watch(Arc::clone(plan));
        }
    }
}
