//! The options of a release in plain words.

use serde_json::Value;

use crate::job::AnonymizeOptions;

/// An option, what it is set to and what that means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionLine {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) meaning: &'static str,
}

const MEANINGS: [(&str, &str); 32] = [
    ("method", "how records are grouped"),
    ("variant", "whether the method runs as its paper prints it"),
    ("k", "the fewest records that must look alike"),
    ("quasi_identifiers", "what somebody could know about a person; published less precisely"),
    ("sensitive", "what nobody should learn about a person; published as it is"),
    ("identifiers", "what names a person; not read and not published"),
    ("keep", "harmless; published as it is"),
    ("privacy_unit", "tells persons apart, so that groups are counted in persons; not published"),
    ("unit_share", "the largest share of a group that one person may hold"),
    ("l", "the fewest different sensitive values in a group"),
    ("entropy_l", "how evenly sensitive values are spread in a group"),
    ("t", "how far a group may differ from the whole table"),
    ("alpha", "the largest share of one sensitive value in a group"),
    ("alpha_scope", "whether shares are those of a value or of a level of sensitivity"),
    ("sensitivity", "how sensitive the values are; the values themselves are not listed here"),
    ("split", "which column a group is divided by"),
    ("ranges", "how ranges of numbers are written"),
    ("class_id", "whether the number of a group is published"),
    ("bucket_id", "whether the number of a bucket is published"),
    ("column_groups", "whether it is published which columns of a bucket belong together"),
    ("constraints", "combinations of columns, each with the fewest records that must share them"),
    ("suppress", "what happens to records that fit nowhere"),
    ("suppression_limit", "the largest share that may be left out"),
    ("weights", "how much columns count when records are compared"),
    ("block_rows", "how many records are compared with each other"),
    ("columns", "how many groups of columns stay together"),
    ("max_columns", "the most columns that stay together"),
    ("min_columns", "the fewest columns that stay together"),
    ("min_support", "how frequent a connection between columns must be to be kept"),
    ("min_confidence", "how reliable a connection between columns must be to be kept"),
    ("rare_below", "the share below which a value is too rare to be published exactly"),
    ("hierarchies", "the steps in which values become less precise"),
];

/// The options that were set, those that matter most first. There is no seed among them.
pub(super) fn option_lines(options: &AnonymizeOptions) -> Vec<OptionLine> {
    let Ok(Value::Object(set)) = serde_json::to_value(options) else { return Vec::new() };
    let method = options.method().map(|method| method.to_string()).unwrap_or_default();
    let line = |(name, meaning): &(&str, &'static str)| {
        let value = match (*name, set.get(*name)) {
            ("method", _) => method.clone(),
            (_, value) => plain(value?),
        };
        Some(OptionLine { name: (*name).replace('_', " "), value, meaning })
    };
    MEANINGS.iter().filter_map(line).collect()
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
