//! SQL from a job. Every text of the job becomes a quoted name or a quoted literal, so nothing in it can
//! be anything else; the seed is not part of the text.

use crate::job::{AnonymizeOptions, Constraint, Hierarchy, Job, OneOrMany, Sensitivity, Switch};

/// The rows to release.
pub const ORIGINAL: &str = "__original";
/// What was written, read back.
pub const PUBLISHED: &str = "__published";
/// The second of two tables, read back.
pub const PUBLISHED_SENSITIVE: &str = "__published_sensitive";

/// The view of a hierarchy that is written as a query.
pub fn hierarchy_view(column: &str) -> String {
    format!("__hierarchy_{column}")
}

/// A name in double quotes.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in single quotes.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `make_array('a', 'b')`, which every dialect reads.
fn texts(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| literal(item)).collect();
    format!("make_array({})", items.join(", "))
}

fn numbers(items: &[f64]) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    format!("make_array({})", items.join(", "))
}

fn entries(items: impl IntoIterator<Item = (String, String)>) -> String {
    let items: Vec<String> =
        items.into_iter().map(|(name, value)| format!("{}, {value}", literal(&name))).collect();
    format!("named_struct({})", items.join(", "))
}

/// Named arguments of a call.
#[derive(Default)]
struct Call(Vec<String>);

impl Call {
    fn set(&mut self, name: &str, value: Option<String>) {
        self.0.extend(value.map(|value| format!("{name} => {value}")));
    }

    fn columns(&mut self, name: &str, columns: &[String]) {
        self.set(name, (!columns.is_empty()).then(|| texts(columns)));
    }

    fn text(&mut self, name: &str, value: Option<&String>) {
        self.set(name, value.map(|value| literal(value)));
    }

    fn on(self, function: &str, relations: &[&str]) -> String {
        let mut arguments: Vec<String> = relations.iter().map(|name| identifier(name)).collect();
        arguments.extend(self.0);
        format!("{function}({})", arguments.join(", "))
    }
}

/// `anonymize("__original", …)`; of two tables the one that is named.
pub fn anonymize(job: &Job, publish: Option<&str>) -> String {
    let options = &job.anonymize;
    let mut call = Call::default();
    call.text("method", options.method.as_ref());
    call.text("variant", options.variant.as_ref());
    call.set("k", options.k.map(|k| k.to_string()));
    call.columns("quasi_identifiers", &options.quasi_identifiers);
    call.columns("sensitive", &options.sensitive);
    call.columns("identifiers", &options.identifiers);
    call.columns("keep", &options.keep);
    call.text("privacy_unit", options.privacy_unit.as_ref());
    call.set("unit_share", options.unit_share.map(|share| format!("{share:?}")));
    models(&mut call, options);
    call.set("publish", publish.map(literal));
    call.text("split", options.split.as_ref());
    call.text("ranges", options.ranges.as_ref());
    call.set("class_id", options.class_id.map(|flag| flag.to_string()));
    let bucket_id = options.bucket_id.or(options.is_sliced().then_some(true));
    call.set("bucket_id", bucket_id.map(|flag| flag.to_string()));
    call.set("column_groups", options.column_groups.map(|flag| flag.to_string()));
    call.set("constraints", constraints(&options.constraints));
    call.set(
        "suppress",
        options.suppress.as_ref().map(|suppress| match suppress {
            Switch::Flag(flag) => flag.to_string(),
            Switch::Text(text) => literal(text),
        }),
    );
    let weights =
        options.weights.iter().map(|(name, weight)| (name.clone(), format!("{weight:?}")));
    call.set("weights", (!options.weights.is_empty()).then(|| entries(weights)));
    for (name, number) in [
        ("block_rows", options.block_rows),
        ("columns", options.columns),
        ("max_columns", options.max_columns),
        ("min_columns", options.min_columns),
    ] {
        call.set(name, number.map(|number| number.to_string()));
    }
    for (name, number) in [
        ("suppression_limit", options.suppression_limit),
        ("min_support", options.min_support),
        ("min_confidence", options.min_confidence),
        ("rare_below", options.rare_below),
    ] {
        call.set(name, number.map(|number| format!("{number:?}")));
    }
    call.set("hierarchies", hierarchies(job, |_| true));
    call.on("anonymize", &[ORIGINAL])
}

/// The conditions on sensitive columns, which a release is made for and checked against.
fn models(call: &mut Call, options: &AnonymizeOptions) {
    call.set("l", options.l.map(|l| l.to_string()));
    call.set("entropy_l", options.entropy_l.map(|l| format!("{l:?}")));
    call.set("t", options.t.map(|t| format!("{t:?}")));
    call.set(
        "alpha",
        options.alpha.as_ref().map(|alpha| match alpha {
            OneOrMany::One(share) => format!("{share:?}"),
            OneOrMany::Many(shares) => numbers(shares),
        }),
    );
    call.text("alpha_scope", options.alpha_scope.as_ref());
    call.set("sensitivity", sensitivity(options));
}

fn sensitivity(options: &AnonymizeOptions) -> Option<String> {
    options.sensitivity.as_ref().map(|sensitivity| match sensitivity {
        Sensitivity::Input(name) => identifier(name),
        Sensitivity::Listed(values) => {
            entries(values.iter().map(|(value, level)| (value.clone(), level.to_string())))
        }
    })
}

fn constraints(constraints: &[Constraint]) -> Option<String> {
    let constraint = |Constraint { columns, k }: &Constraint| {
        entries([("columns".to_owned(), texts(columns)), ("k".to_owned(), k.to_string())])
    };
    let all: Vec<String> = constraints.iter().map(constraint).collect();
    (!all.is_empty()).then(|| format!("make_array({})", all.join(", ")))
}

fn hierarchies(job: &Job, wanted: impl Fn(&String) -> bool) -> Option<String> {
    let list = |function: &str, items: Vec<String>| format!("{function}({})", items.join(", "));
    let hierarchy = |column: &str, hierarchy: &Hierarchy| match hierarchy {
        Hierarchy::Intervals(steps) => {
            list("intervals", steps.iter().map(ToString::to_string).collect())
        }
        Hierarchy::Prefixes(kept) => {
            list("prefixes", kept.iter().map(ToString::to_string).collect())
        }
        Hierarchy::DateSteps(units) => {
            list("date_steps", units.iter().map(|unit| literal(unit)).collect())
        }
        Hierarchy::File(path) => literal(&job.locate(path)),
        Hierarchy::Input(name) => identifier(name),
        Hierarchy::Query(_) => identifier(&hierarchy_view(column)),
    };
    let given = job.anonymize.hierarchies.iter().filter(|(column, _)| wanted(column));
    let given: Vec<_> =
        given.map(|(column, given)| (column.clone(), hierarchy(column, given))).collect();
    (!given.is_empty()).then(|| entries(given))
}

/// The check of what was written, against what the options promise.
pub fn privacy_report(job: &Job) -> String {
    let options = &job.anonymize;
    let mut call = Call::default();
    if options.has_constraints() {
        call.set("constraints", constraints(&options.constraints()));
        return select(&call.on("privacy_report", &[PUBLISHED]));
    }
    call.set("k", options.k.map(|k| k.to_string()));
    call.columns("quasi_identifiers", &options.quasi_identifiers);
    call.columns("sensitive", &options.sensitive);
    models(&mut call, options);
    if options.is_sliced() {
        call.set("bucket", Some(literal("bucket_id")));
    }
    if options.has_two_tables() {
        return select(&call.on("privacy_report", &[PUBLISHED, PUBLISHED_SENSITIVE]));
    }
    select(&call.on("privacy_report", &[PUBLISHED]))
}

/// What is left of the original in what was written.
pub fn utility_report(job: &Job) -> String {
    let options = &job.anonymize;
    let columns = options.all_quasi_identifiers();
    let mut call = Call::default();
    call.columns("quasi_identifiers", &columns);
    if options.has_two_tables() {
        call.columns("sensitive", &options.sensitive);
        call.set("sensitivity", sensitivity(options));
        return select(&call.on("utility_report", &[ORIGINAL, PUBLISHED, PUBLISHED_SENSITIVE]));
    }
    call.set("k", options.k.map(|k| k.to_string()));
    call.set("hierarchies", hierarchies(job, |column| columns.contains(column)));
    select(&call.on("utility_report", &[ORIGINAL, PUBLISHED]))
}

fn select(relation: &str) -> String {
    format!("SELECT * FROM {relation}")
}
