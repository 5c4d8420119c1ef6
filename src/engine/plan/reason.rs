//! Why a release must not be written, and the mark that says so.

use std::collections::BTreeMap;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, plan_datafusion_err};

use crate::engine::options::Spec;
use crate::method::{Family, Variant};

/// Marks the schema of a release that must not be written, so that a table made of it (`CREATE TABLE … AS`) says so too.
const MARK: &str = "anonymize.not_to_be_written";

/// Why a release must not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Reason {
    /// The paper's version of the method gives people away.
    Variant,
    /// The seed can be found by trying; `SET anonymize.allow_short_seeds = true` allows it all the same.
    ShortSeed,
}

impl Reason {
    const ALL: [Self; 2] = [Self::Variant, Self::ShortSeed];

    pub(in crate::engine) fn of(spec: &Spec) -> Option<Self> {
        if spec.method.family() == Family::TwoTables && spec.variant == Variant::Paper {
            return Some(Self::Variant);
        }
        spec.secret.is_short().then_some(Self::ShortSeed)
    }

    /// Why a table must not be written that was made of a release.
    pub(in crate::engine) fn of_table(schema: &Schema) -> Option<Self> {
        let mark = schema.metadata().get(MARK)?;
        Self::ALL.into_iter().find(|reason| reason.name() == mark)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Variant => "paper",
            Self::ShortSeed => "short seed",
        }
    }

    pub(in crate::engine) fn error(self) -> DataFusionError {
        match self {
            Self::Variant => plan_datafusion_err!(
                "variant => 'paper' of method {} groups rows in the order of their quasi-identifiers, which a reader \
                 of both tables can use to name people: it is for experiments and is not written; leave it out",
                Family::TwoTables.method_names()
            ),
            Self::ShortSeed => plan_datafusion_err!(
                "option 'seed' has fewer than 16 characters, or fewer than 5 different ones, and what is written under \
                 it can be replayed by trying them all: write the output of openssl rand -hex 16, or leave the option \
                 out and one is drawn; for tests, SET anonymize.allow_short_seeds = true"
            ),
        }
    }
}

/// Marks the metadata of a release that must not be written.
pub(in crate::engine) fn mark(spec: &Spec, metadata: &mut BTreeMap<String, String>) {
    if let Some(reason) = Reason::of(spec) {
        metadata.insert(MARK.to_owned(), reason.name().to_owned());
    }
}
