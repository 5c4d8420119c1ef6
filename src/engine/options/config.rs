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

/// A setting is a line: its documentation, which `information_schema.df_settings` shows too, its name, its type, its
/// default, and how it is read, or what a text must be instead.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr, $read:expr;)+) => {
        /// Defaults for options that a query leaves out.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct AnonymizeConfig {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl Default for AnonymizeConfig {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        // By hand: DataFusion's macro for extensions lists the settings without their prefix, and SHOW then neither finds
        // nor shows them.
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
                    $(stringify!($name) => {
                        let read: fn(&str) -> Result<$type, String> = $read;
                        self.$name = read(value).map_err(|wanted| {
                            config_datafusion_err!("setting 'anonymize.{key}'{wanted}")
                        })?;
                    })+
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
                vec![$(ConfigEntry {
                    key: format!("{}.{}", Self::PREFIX, stringify!($name)),
                    value: Some(self.$name.to_string()),
                    description: concat!($($doc),+).trim(),
                }),+]
            }
        }
    };
}

settings! {
    /// The k of queries that name none; 0: every query must name its k.
    default_k: u32 = 0, |text| {
        text.parse().map_err(|_| " must be a whole number, as in SET anonymize.default_k = 10".to_owned())
    };
    /// The method of queries that name none.
    default_method: MethodRef = MethodRef::DEFAULT, choice;
    /// How partition methods choose the quasi-identifier to cut: least_loss or widest.
    split: Split = Split::LeastLoss, choice;
    /// How generalized numbers are published: label, bounds or mean.
    ranges: Ranges = Ranges::Label, choice;
    /// Cells that a table is cut into to be anonymized in parts, on several machines; 0 and 1: in one piece.
    cells: u32 = 0, cells;
    /// Whether releases may be written that were made under a seed of fewer than 16 characters; for tests.
    allow_short_seeds: bool = false, |text| {
        text.parse()
            .map_err(|_| " must be true or false, as in SET anonymize.allow_short_seeds = true".to_owned())
    };
}

impl ConfigExtension for AnonymizeConfig {
    const PREFIX: &'static str = "anonymize";
}

impl AnonymizeConfig {
    /// The settings of a session, the defaults if the session has none.
    pub fn of(options: &ConfigOptions) -> Self {
        options.extensions.get::<Self>().cloned().unwrap_or_default()
    }
}

fn choice<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!(", {error}"))
}

fn cells(text: &str) -> Result<u32, String> {
    if cfg!(not(feature = "cells")) {
        return Err(
            " needs the feature 'cells' of datafusion-anonymize, which this program was built without".to_owned()
        );
    }
    text.parse().ok().filter(|cells| *cells <= MOST_CELLS).ok_or_else(|| {
        format!(
            " must be a whole number up to {MOST_CELLS}, as in SET anonymize.cells = 8; 0 anonymizes a table in one piece"
        )
    })
}
