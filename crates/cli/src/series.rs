//! `anonymize series`: how a series stands, and who is forgotten.

use std::io::Read;
use std::path::PathBuf;

use anonymize_release::{
    Forgotten, Job, NEW_SERIES_COST, Night, Status, Withdrawn, forget, status, withdraw_forgotten,
};
use clap::{Args, Subcommand};

use crate::options::Options;
use crate::progress::{Progress, say, warn};
use crate::release::failure;
use crate::run::{Failure, audience};
use crate::session::Session;

/// What nobody but the owner can remove.
const COPIES_STAY: &str = "The current release stays as it is until the next one, and so do copies of it and backups of the state.";

/// What to do with a series.
#[derive(Debug, Subcommand)]
pub enum SeriesTask {
    /// Tell how many cohorts publish what is known tonight, how many are held, and who waits
    Status(StatusArguments),
    /// Take a person out of the state, so that the cohort is never published with new values again
    ///
    /// Remove the person from the input first: who is forgotten and still there is a newcomer the next night. The
    /// current release stays until the job runs again.
    Forget(ForgetArguments),
    /// Leave the cohorts of all who were forgotten out from the next release on
    ///
    /// For those who were forgotten without --withdraw: their cohorts repeat their last rows until then.
    Withdraw(Whose),
}

/// Whose series.
#[derive(Debug, Args)]
pub struct Whose {
    /// The job file, or with --view the policy of a service
    #[arg(value_name = "JOB.TOML")]
    pub job: PathBuf,

    /// The view of the policy whose series it is
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "NAME")]
    pub view: Option<String>,
}

/// Which series is told about.
#[derive(Debug, Args)]
pub struct StatusArguments {
    #[command(flatten)]
    pub whose: Whose,
}

/// Who is forgotten.
#[derive(Debug, Args)]
pub struct ForgetArguments {
    #[command(flatten)]
    pub whose: Whose,

    /// The person's key, as the column privacy_unit holds it, or '-' to read it from standard input, but for a newline at its end
    #[arg(value_name = "KEY", allow_hyphen_values = true)]
    pub key: String,

    /// Leave the person's cohort out from the next release on
    #[arg(long)]
    pub withdraw: bool,
}

impl Whose {
    fn job(&self) -> Result<Job, Failure> {
        #[cfg(feature = "serve")]
        if let Some(view) = &self.view {
            let view = anonymize_serve::Policy::read_view(&self.job, view);
            return Ok(view.map_err(crate::serve::failure)?.job);
        }
        Job::read(&self.job).map_err(|error| failure("the job", error))
    }
}

/// Does it.
pub async fn series(options: &Options, task: &SeriesTask) -> Result<(), Failure> {
    if options.has_script() {
        return Err(Failure::Setup("series takes a job file; leave out -c and -f".to_owned()));
    }
    let whose = match task {
        SeriesTask::Status(arguments) => &arguments.whose,
        SeriesTask::Forget(arguments) => &arguments.whose,
        SeriesTask::Withdraw(whose) => whose,
    };
    let job = whose.job()?;
    let session = Session::new(options).await.map_err(|error| Failure::Setup(error.to_string()))?;
    let failed = |error| failure(&job.name, error);
    match task {
        SeriesTask::Status(_) => {
            let found = status(&job, &session.context).await.map_err(failed)?;
            tell(&job, &found);
        }
        SeriesTask::Forget(arguments) => {
            let key = key(&arguments.key)?;
            let progress = Progress::start(audience(options), format!("{}: forgetting", job.name));
            let forgotten = forget(&job, &session.context, &key, arguments.withdraw).await;
            drop(progress);
            tell_forgotten(&job, &forgotten.map_err(failed)?);
        }
        SeriesTask::Withdraw(_) => {
            let withdrawn = withdraw_forgotten(&job, &session.context).await.map_err(failed)?;
            let Withdrawn { cohorts, notes } = withdrawn;
            say(&format!("{}: {cohorts} cohorts are left out from the next release on", job.name));
            say(COPIES_STAY);
            notes.iter().for_each(|note| warn(&format!("{}: {note}", job.name)));
        }
    }
    Ok(())
}

/// A key that is not on the command line stands neither in the history of the shell nor in the list of processes.
fn key(given: &str) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut key = String::new();
    std::io::stdin().read_to_string(&mut key).map_err(|error| {
        Failure::Setup(format!("cannot read the key from standard input: {error}"))
    })?;
    // The one that an editor or a shell puts behind a line; others may belong to the key.
    Ok(key.strip_suffix('\n').unwrap_or(&key).to_owned())
}

fn tell_forgotten(job: &Job, forgotten: &Forgotten) {
    say(&match forgotten.is_withdrawn {
        true => format!("{}: forgotten; the cohort is left out from the next release on", job.name),
        false => format!("{}: forgotten; the cohort repeats its last rows from now on", job.name),
    });
    say(COPIES_STAY);
    for note in &forgotten.notes {
        warn(&format!("{}: {note}", job.name));
    }
}

fn tell(job: &Job, status: &Status) {
    let Status { current, nights, withdrawn_on_request, min_live } = status;
    let Some(last) = nights.last() else { return };
    say(&format!("{}: series {}, night {}", job.name, current.id, current.night));
    say(&format!(
        "{} cohorts: {} live ({:.1} %), {} held, {} withdrawn",
        last.cohorts,
        last.live,
        100.0 * last.live_share(),
        last.held,
        last.withdrawn()
    ));
    say(&format!(
        "{} persons of the last night have a cohort, {} wait for one",
        last.persons, last.waiting
    ));
    if *withdrawn_on_request > 0 {
        say(&format!("{withdrawn_on_request} cohorts were withdrawn on request"));
    }
    plot(nights).iter().for_each(|line| say(line));
    let limit = min_live.unwrap_or(0.5);
    match status.nights_left(limit) {
        Some(0.0) => {
            say(&format!("another series is due: --new-series starts it, but {NEW_SERIES_COST}"))
        }
        Some(nights) => {
            say(&format!("at this rate {limit} is reached in about {} nights", nights.ceil()))
        }
        None => {}
    }
}

/// The most nights that are drawn.
const COLUMNS: usize = 60;
/// How high the plot is.
const LINES: usize = 5;

/// The share of live cohorts by night, as blocks.
fn plot(nights: &[Night]) -> Vec<String> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = nights.len().min(COLUMNS);
    // The last night is always among them.
    let drawn: Vec<f64> = (1..=columns)
        .map(|column| nights[column * nights.len() / columns - 1].live_share())
        .collect();
    let mut lines = vec![format!("share of live cohorts, nights 1 to {}", nights.len())];
    for line in (0..LINES).rev() {
        let block = |share: &f64| {
            let filled = (share * LINES as f64 - line as f64).clamp(0.0, 1.0);
            EIGHTHS[(filled * 8.0).round() as usize]
        };
        let top = 100 * (line + 1) / LINES;
        let bar: String = drawn.iter().map(block).collect();
        lines.push(format!("{top:>4} % │{}", bar.trim_end()));
    }
    lines.push(format!("       └{}", "─".repeat(columns)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn night(live: u64) -> Night {
        Night {
            release: String::new(),
            cohorts: 100,
            live,
            held: 100 - live,
            persons: 0,
            waiting: 0,
        }
    }

    #[test]
    fn the_plot_shows_the_decay() {
        let nights: Vec<Night> = [100, 80, 50, 10].map(night).to_vec();
        let drawn = plot(&nights);
        assert_eq!(
            drawn,
            [
                "share of live cohorts, nights 1 to 4",
                " 100 % │█",
                "  80 % │██",
                "  60 % │██▄",
                "  40 % │███",
                "  20 % │███▄",
                "       └────",
            ]
        );
    }

    #[test]
    fn many_nights_fit_and_the_last_one_is_there() {
        let mut nights = vec![night(100); 364];
        nights.push(night(0));
        let drawn = plot(&nights);
        assert_eq!(drawn[1].chars().filter(|block| *block == '█').count(), COLUMNS - 1);
        assert!(plot(&[night(100)])[1].ends_with("│█"));
    }
}
