//! The options of a release in plain words.

use datafusion_anonymize::{Definition, Options, Place};
use serde_json::Value;

use crate::job::Job;

/// An option, what it is set to and what that means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionLine {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) meaning: String,
}

/// The options that were set, the method first. There is no seed among them.
pub(super) fn option_lines(job: &Job) -> Vec<OptionLine> {
    let Ok(Value::Object(set)) = serde_json::to_value(&job.anonymize) else { return Vec::new() };
    let method = job.method().map(|method| method.to_string()).unwrap_or_default();
    let line = |option: &'static Definition| {
        let value = match option.name {
            "method" => method.clone(),
            name => plain(set.get(name)?),
        };
        let name = option.name.replace('_', " ");
        Some(OptionLine { name, value, meaning: meaning(option) })
    };
    let mut definitions: Vec<&'static Definition> = Options::definitions(Place::File).collect();
    definitions.sort_by_key(|option| option.name != "method");
    definitions.into_iter().filter_map(line).collect()
}

/// The sentence that documents an option, as the end of another.
fn meaning(option: &Definition) -> String {
    let sentence = option.summary();
    let mut letters = sentence.trim_end_matches('.').chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// A JSON value as somebody would write it by hand.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(name, value)| format!("{name}: {}", plain(value)));
            entries.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}
