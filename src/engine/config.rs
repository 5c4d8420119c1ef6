//! Settings of a session: `SET anonymize.default_k = 5`.

use datafusion::common::extensions_options;
use datafusion::config::{ConfigExtension, ConfigOptions};

extensions_options! {
    /// Defaults for options that a query leaves out.
    pub struct AnonymizeConfig {
        /// The k of queries that name none; 0 means that every query must name its k.
        pub default_k: u32, default = 0

        /// The method of queries that name none.
        pub default_method: String, default = "rounded".to_owned()

        /// How partition methods choose the quasi-identifier to cut: least_loss or widest.
        pub split: String, default = "least_loss".to_owned()

        /// How generalized numbers are published: label, bounds or mean.
        pub ranges: String, default = "label".to_owned()
    }
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
