//! The files of a state: what a series remembers from night to night, without an attribute of anybody.

use datafusion_anonymize::{Changes, Leavers, Options};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::job::{Job, Series};

/// What tells these files from any other JSON file.
const KIND: &str = "anonymize-series/1";

/// The name of the claim.
pub(super) const CLAIM: &str = "state.json";

/// Options that a series keeps from its first night on: others would regroup people, or promise something else.
const PROMISE: [&str; 14] = [
    "k",
    "quasi_identifiers",
    "sensitive",
    "privacy_unit",
    "method",
    "variant",
    "l",
    "entropy_l",
    "t",
    "alpha",
    "alpha_scope",
    "sensitivity",
    "leavers",
    "changes",
];

/// What a reader of the releases pays when a series ends and another one starts.
pub const NEW_SERIES_COST: &str = "the last release of the old series and the first of the new one can be compared, and \
     who compares them may narrow a person down to fewer than k";

/// A series after one of its releases. Written once; the pointer of the output names it with its SHA-256.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    kind: String,
    /// The job whose series it is.
    pub(crate) job: String,
    /// The series, by the name of its first release.
    pub(crate) series: String,
    /// The series in the same folder that it came after.
    pub(crate) replaces: Option<String>,
    /// The release that it belongs to.
    pub(crate) release: String,
    /// How often the state has changed: once a night, and whenever somebody is forgotten.
    pub(crate) version: u64,
    /// By what the secret is recognized.
    pub(crate) secret: String,
    /// The options that stay.
    pub(crate) promise: Map<String, Value>,
    /// Who is in which cohort, in the order in which the segments were written.
    pub(crate) segments: Vec<Segment>,
    /// Cohorts that somebody had withdrawn: never published again.
    pub(crate) withdrawn: Vec<i64>,
    /// Cohorts of which somebody was forgotten, and which repeat their last rows since.
    #[serde(default)]
    pub(crate) forgotten: Vec<i64>,
    /// All nights so far.
    pub(crate) nights: Vec<Night>,
}

/// A Parquet file of persons and their cohorts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Segment {
    pub(crate) file: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// What became of the cohorts in one night.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Night {
    /// Its release.
    pub release: String,
    /// Cohorts that the series ever had.
    pub cohorts: u64,
    /// Those that publish what is known tonight.
    pub live: u64,
    /// Those that repeat their last rows.
    pub held: u64,
    /// Persons with a cohort who are there tonight.
    pub persons: u64,
    /// Persons who wait for a cohort.
    pub waiting: u64,
}

impl Night {
    /// The share of cohorts that publish what is known tonight.
    pub fn live_share(&self) -> f64 {
        match self.cohorts {
            0 => 1.0,
            cohorts => self.live as f64 / cohorts as f64,
        }
    }

    /// Cohorts that are not published any more.
    pub fn withdrawn(&self) -> u64 {
        self.cohorts.saturating_sub(self.live + self.held)
    }
}

/// Whose state it is, and the last release that is known to be published: a pointer that is older was brought back from
/// somewhere, and a series that went on from there would put people into second cohorts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    kind: String,
    pub(super) job: String,
    pub(super) published: Option<Published>,
}

/// A state that the pointer has named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) series: String,
    pub(super) version: u64,
}

impl Claim {
    pub(super) fn new(job: &str, state: Option<&State>) -> Self {
        let published =
            state.map(|state| Published { series: state.series.clone(), version: state.version });
        Self { kind: KIND.to_owned(), job: job.to_owned(), published }
    }

    /// The series that was published.
    pub(super) fn series(&self) -> Option<&str> {
        self.published.as_ref().map(|published| published.series.as_str())
    }

    pub(super) fn from_json(bytes: &[u8], whose: &str) -> Result<Self> {
        parse(bytes, whose, |claim: &Self| &claim.kind)
    }

    pub(super) fn to_json(&self) -> Result<String> {
        text(self)
    }
}

impl State {
    /// The first state of a series, before its first night has ended.
    pub(super) fn first(job: &Job, release: &str) -> Result<Self> {
        Ok(Self {
            kind: KIND.to_owned(),
            job: job.name.clone(),
            series: release.to_owned(),
            replaces: None,
            release: release.to_owned(),
            version: 0,
            secret: fingerprint(job)?,
            promise: promise(job)?,
            segments: Vec::new(),
            withdrawn: Vec::new(),
            forgotten: Vec::new(),
            nights: Vec::new(),
        })
    }

    pub(super) fn from_json(bytes: &[u8], whose: &str) -> Result<Self> {
        parse(bytes, whose, |state: &Self| &state.kind)
    }

    pub(super) fn to_json(&self) -> Result<String> {
        text(self)
    }

    /// Somebody of a cohort was forgotten.
    pub(super) fn lose(&mut self, cohort: i64, withdraw: bool) {
        if self.withdrawn.contains(&cohort) {
            return;
        }
        self.forgotten.retain(|known| *known != cohort);
        let lists = if withdraw { &mut self.withdrawn } else { &mut self.forgotten };
        lists.push(cohort);
    }

    /// Leaves the cohorts of all who were forgotten out from now on.
    pub(super) fn withdraw_forgotten(&mut self) -> Result<()> {
        if self.forgotten.is_empty() {
            return Err(Error::Failed(
                "nobody was forgotten whose cohort is still published: there is nothing to withdraw".to_owned(),
            ));
        }
        self.withdrawn.append(&mut self.forgotten);
        Ok(())
    }

    /// The name of the file that holds the state after a run.
    pub(super) fn file(run: &str) -> String {
        format!("series-{run}.json")
    }

    /// The name of the segment that a run writes.
    pub(super) fn segment(run: &str) -> String {
        format!("members-{run}.parquet")
    }

    /// Whether the job may go on with the series.
    pub(super) fn check_continues(&self, job: &Job) -> Result<()> {
        if self.job != job.name {
            return Err(Error::job(format!(
                "series: the state is that of the job '{}': give '{}' a state of its own",
                self.job, job.name
            )));
        }
        if self.secret != fingerprint(job)? {
            return Err(Error::job(
                "series: the seed is not the one that the series was begun with, so everybody would be taken for a \
                 newcomer; bring back the seed of the last night",
            ));
        }
        self.check_promise(job)
    }

    /// Whether the options are those that the series was begun with.
    pub(super) fn check_promise(&self, job: &Job) -> Result<()> {
        let now = promise(job)?;
        let mut names = PROMISE.iter();
        let Some(changed) = names.find(|name| self.promise.get(**name) != now.get(**name)) else {
            return Ok(());
        };
        let was = match self.promise.get(*changed) {
            Some(value) => format!("write {changed} = {value} again"),
            None => format!("leave {changed} out again"),
        };
        let why = match *changed {
            "leavers" => "which decides for good what becomes of rows of persons who leave",
            "changes" => "which decides whose readers may tell whose values have changed",
            _ => "so its releases could be compared",
        };
        Err(Error::job(format!(
            "series: {changed} is not what the series was begun with, {why}; {was}, or start another series with \
             --new-series, but {NEW_SERIES_COST}"
        )))
    }
}

/// By what the secret of a job is recognized.
fn fingerprint(job: &Job) -> Result<String> {
    Ok(job.series_secret()?.fingerprint())
}

/// The options that a series keeps, as a manifest tells them. The order of columns means nothing.
fn promise(job: &Job) -> Result<Map<String, Value>> {
    let mut options: Options = job.anonymize.clone();
    options.retain(|option| PROMISE.contains(&option.name));
    let told = serde_json::to_value(&options)
        .map_err(|error| Error::storage("the options cannot be kept", error))?;
    let Value::Object(mut told) = told else { return Ok(Map::new()) };
    told.insert("method".to_owned(), job.method()?.to_string().into());
    let Series { leavers, changes, .. } = job.series()?;
    if *leavers != Leavers::default() {
        told.insert("leavers".to_owned(), leavers.to_string().into());
    }
    if *changes != Changes::default() {
        told.insert("changes".to_owned(), changes.to_string().into());
    }
    for columns in told.values_mut().filter_map(Value::as_array_mut) {
        if columns.iter().all(Value::is_string) {
            columns.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
    }
    Ok(told)
}

fn parse<T: DeserializeOwned>(bytes: &[u8], whose: &str, kind: fn(&T) -> &String) -> Result<T> {
    match serde_json::from_slice::<T>(bytes) {
        Ok(parsed) if kind(&parsed) == KIND => Ok(parsed),
        _ => Err(Error::Failed(format!(
            "'{whose}' is not the state of a series by this program: choose another place for state, or move the file away"
        ))),
    }
}

fn text(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::storage("the state cannot be written", error))?;
    Ok(text + "\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;

    const JOB: &str = r#"
        name = "census"
        query = "SELECT 1"
        [anonymize]
        k = 10
        quasi_identifiers = ["age", "zip"]
        sensitive = ["disease"]
        privacy_unit = "person"
        seed = "a secret of the tests"
        [output]
        path = "out"
        [series]
        state = "state"
    "#;

    fn job(text: &str) -> Job {
        Job::from_toml(text, Path::new("/")).unwrap()
    }

    #[test]
    fn a_series_goes_on_with_the_options_it_was_begun_with() {
        let state = State::first(&job(JOB), "20261117T020000Z-00000001").unwrap();
        let again = State::from_json(state.to_json().unwrap().as_bytes(), "test").unwrap();
        assert_eq!(again, state);
        state.check_continues(&job(JOB)).unwrap();
        state.check_continues(&job(&JOB.replace(r#""age", "zip""#, r#""zip", "age""#))).unwrap();
        // The default by its name.
        state
            .check_continues(&job(&JOB.replace("k = 10", "k = 10\nmethod = \"layered\"")))
            .unwrap();
        for (from, to, told) in [
            ("k = 10", "k = 9", "k is not what the series was begun with"),
            ("k = 10", "k = 10\nl = 2", "leave l out again"),
            (r#""age", "zip""#, r#""age""#, "quasi_identifiers is not what"),
            ("k = 10", "k = 10\nmethod = \"rounded\"", "write method = \"layered\" again"),
            ("\"person\"", "\"ssn\"", "write privacy_unit = \"person\" again"),
            (
                "state = \"state\"",
                "state = \"state\"\nleavers = \"withdraw\"",
                "leave leavers out again",
            ),
            ("state = \"state\"", "state = \"state\"\nchanges = \"never\"", "changes is not what"),
            ("a secret of", "another secret of", "the seed is not the one"),
            ("\"census\"", "\"patients\"", "is that of the job 'census'"),
        ] {
            let error = state.check_continues(&job(&JOB.replace(from, to))).unwrap_err();
            assert!(matches!(&error, Error::Job(text) if text.contains(told)), "{error}");
        }
    }

    #[test]
    fn cohorts_of_the_forgotten_can_be_withdrawn_later() {
        let mut state = State::first(&job(JOB), "x").unwrap();
        assert!(state.withdraw_forgotten().is_err());
        for (cohort, withdraw) in
            [(1, false), (2, false), (3, true), (2, true), (2, false), (1, false)]
        {
            state.lose(cohort, withdraw);
        }
        assert_eq!((&state.forgotten, &state.withdrawn), (&vec![1], &vec![3, 2]));
        state.withdraw_forgotten().unwrap();
        assert_eq!((&state.forgotten, &state.withdrawn), (&vec![], &vec![3, 2, 1]));
    }

    #[test]
    fn a_state_holds_no_seed_and_no_sensitive_value() {
        let levels = "k = 10\nalpha = [0.5]\nsensitivity = { HIV = 1 }";
        let state = State::first(&job(&JOB.replace("k = 10", levels)), "x").unwrap();
        let text = state.to_json().unwrap();
        assert!(!text.contains("a secret of") && !text.contains("HIV"), "{text}");
    }

    #[test]
    fn other_files_are_no_state() {
        for text in
            ["", "{}", r#"{"kind": "anonymize-release/1", "job": "census", "published": null}"#]
        {
            let error = Claim::from_json(text.as_bytes(), "state.json").unwrap_err();
            assert!(error.to_string().contains("is not the state of a series"), "{error}");
            assert!(State::from_json(text.as_bytes(), "x").is_err());
        }
    }
}
