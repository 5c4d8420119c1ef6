//! Settings of a session: `SET anonymize.default_k = 5`.

use std::any::Any;
use std::str::FromStr;

use datafusion::common::config_datafusion_err;
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::Result;

use crate::columnar::Ranges;
use crate::error::Error;
use crate::method::MethodRef;
use crate::method::partition::Split;

/// With more cells, the sample has too few tuples per cell to cut the table well.
const MOST_CELLS: u32 = 4096;

/// Defaults for options that a query leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnonymizeConfig {
    /// The k of queries that name none; 0 means that every query must name its k.
    pub default_k: u32,
    /// The method of queries that name none.
    pub default_method: String,
    /// How partition methods choose the quasi-identifier to cut: least_loss or widest.
    pub split: String,
    /// How generalized numbers are published: label, bounds or mean.
    pub ranges: String,
    /// Cells that a table is cut into to be anonymized in parts; 0 and 1 mean in one piece.
    pub cells: u32,
    /// Whether releases may be written that were made under a seed of fewer than 16 characters; for tests.
    pub allow_short_seeds: bool,
}

impl Default for AnonymizeConfig {
    fn default() -> Self {
        Self {
            default_k: 0,
            default_method: "rounded".to_owned(),
            split: "least_loss".to_owned(),
            ranges: "label".to_owned(),
            cells: 0,
            allow_short_seeds: false,
        }
    }
}

impl ConfigExtension for AnonymizeConfig {
    const PREFIX: &'static str = "anonymize";
}

// By hand: the macro for extensions lists the settings without their prefix, and SHOW then neither
// finds nor shows them.
impl ExtensionOptions for AnonymizeConfig {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "default_k" => {
                self.default_k = value.parse().map_err(|_| {
                    config_datafusion_err!(
                        "setting 'anonymize.default_k' must be a whole number, as in SET anonymize.default_k = 10"
                    )
                })?;
            }
            "default_method" => self.default_method = value.to_owned(),
            "split" => self.split = value.to_owned(),
            "ranges" => self.ranges = value.to_owned(),
            "cells" if cfg!(not(feature = "cells")) => {
                return Err(config_datafusion_err!(
                    "setting 'anonymize.cells' needs the feature 'cells' of datafusion-anonymize, which this program was \
                     built without"
                ));
            }
            "cells" => {
                let cells = value.parse().ok().filter(|cells| *cells <= MOST_CELLS);
                self.cells = cells.ok_or_else(|| {
                    config_datafusion_err!(
                        "setting 'anonymize.cells' must be a whole number up to {MOST_CELLS}, as in SET \
                         anonymize.cells = 8; 0 anonymizes a table in one piece"
                    )
                })?;
            }
            "allow_short_seeds" => {
                self.allow_short_seeds = value.parse().map_err(|_| {
                    config_datafusion_err!(
                        "setting 'anonymize.allow_short_seeds' must be true or false, as in SET \
                         anonymize.allow_short_seeds = true"
                    )
                })?;
            }
            other => {
                let known: Vec<String> =
                    self.entries().into_iter().map(|entry| entry.key).collect();
                return Err(config_datafusion_err!(
                    "there is no setting 'anonymize.{other}'; there are {}",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |name: &str, value: String, description| ConfigEntry {
            key: format!("{}.{name}", Self::PREFIX),
            value: Some(value),
            description,
        };
        vec![
            entry(
                "default_k",
                self.default_k.to_string(),
                "The k of queries that name none; 0: every query must name its k",
            ),
            entry(
                "default_method",
                self.default_method.clone(),
                "The method of queries that name none",
            ),
            entry(
                "split",
                self.split.clone(),
                "How partition methods choose the quasi-identifier to cut: least_loss or widest",
            ),
            entry(
                "ranges",
                self.ranges.clone(),
                "How generalized numbers are published: label, bounds or mean",
            ),
            entry(
                "cells",
                self.cells.to_string(),
                "Cells that a table is cut into to be anonymized in parts, on several machines; 0: in one piece",
            ),
            entry(
                "allow_short_seeds",
                self.allow_short_seeds.to_string(),
                "Whether releases may be written whose seed has fewer than 16 characters; for tests",
            ),
        ]
    }
}

impl AnonymizeConfig {
    /// The settings of a session, the defaults if the session has none.
    pub fn of(options: &ConfigOptions) -> Self {
        options.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    pub(super) fn method(&self) -> Result<MethodRef, Error> {
        choice("default_method", &self.default_method)
    }

    pub(super) fn split(&self) -> Result<Split, Error> {
        choice("split", &self.split)
    }

    pub(super) fn ranges(&self) -> Result<Ranges, Error> {
        choice("ranges", &self.ranges)
    }
}

/// What the setting of this name chooses.
fn choice<T: FromStr<Err = Error>>(name: &str, value: &str) -> Result<T, Error> {
    value.parse().map_err(|error| Error::invalid(format!("setting 'anonymize.{name}', {error}")))
}
