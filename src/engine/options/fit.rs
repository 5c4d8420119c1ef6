//! Which options go with which method.

use super::{Chosen, Options};
use crate::columnar::Ranges;
use crate::engine::options::Suppress;
use crate::error::{Error, Result};
use crate::method::{Family, MethodOption, MethodRef, Variant, method_options};

/// Whether an option is written.
trait Given {
    fn is_given(&self) -> bool;
}

impl<T> Given for Option<T> {
    fn is_given(&self) -> bool {
        self.is_some()
    }
}

impl<T> Given for Vec<T> {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl<T> Given for Chosen<T> {
    fn is_given(&self) -> bool {
        self.is_some()
    }
}

/// What the options mean together with the settings of the session, as far as methods differ in it.
#[derive(Clone, Copy)]
pub(super) struct Meaning {
    pub(super) variant: Variant,
    pub(super) ranges: Ranges,
    pub(super) suppress: Option<Suppress>,
}

/// An entry of the list is given if its option is written, or else by `Options::is_meant`.
macro_rules! given {
    ($options:expr, $option:expr, $meaning:expr, $name:ident) => {
        $options.$name.is_given()
    };
    ($options:expr, $option:expr, $meaning:expr, $text:literal) => {
        $options.is_meant($option, $meaning)?
    };
}

macro_rules! define_is_given {
    ($($(#[doc = $doc:literal])+ $(#[cfg($cfg:meta)])? $option:ident = $written:tt,)*) => {
        impl Options {
            fn is_given(&self, option: MethodOption, meaning: Meaning) -> Result<bool> {
                Ok(match option {
                    $($(#[cfg($cfg)])? MethodOption::$option => given!(self, option, meaning, $written),)*
                })
            }
        }
    };
}

method_options!(define_is_given);

impl Options {
    /// Errors if an option does not go with the method, or if one that the method needs is missing.
    pub(super) fn check_fit(&self, method: MethodRef, meaning: Meaning) -> Result<()> {
        let mut given = Vec::new();
        for option in MethodOption::ALL {
            if self.is_given(*option, meaning)? {
                given.push(*option);
            }
        }
        method.check(&given)?;
        match method.family() {
            Family::TwoTables => self.check_two_tables(method),
            Family::Slices => self.check_sliced(method),
            Family::Classes | Family::Constraints => Ok(()),
        }
    }

    /// Whether what no option says alone is asked for.
    fn is_meant(&self, option: MethodOption, meaning: Meaning) -> Result<bool> {
        Ok(match option {
            MethodOption::ManyConstraints => self.constraints.len() > 1,
            // Not `false`, which is written for methods that have nothing to suppress.
            MethodOption::SuppressCells => {
                self.suppress.as_ref().is_some_and(|asked| asked.eq_ignore_ascii_case("cells"))
            }
            MethodOption::SuppressRows => meaning.suppress == Some(Suppress::Rows),
            // A setting of the session counts as given.
            MethodOption::MeanRanges => meaning.ranges == Ranges::Mean,
            MethodOption::Publish => self.publish.is_some() && self.series.is_none(),
            MethodOption::Paper => meaning.variant == Variant::Paper,
            _ => return Err(Error::bug(format!("nothing says when {option} is given"))),
        })
    }

    fn check_two_tables(&self, method: MethodRef) -> Result<()> {
        if self.alpha.is_empty() {
            return Err(Error::invalid(format!(
                "method '{method}' needs option 'alpha', the largest share of one sensitive value in a \
                 class: write alpha => 0.5, or one share per level and sensitivity => {{…}}"
            )));
        }
        if self.sensitive.len() != 1 {
            return Err(Error::invalid(format!(
                "method '{method}' protects one sensitive column and {} are listed: write sensitive => \
                 ['…']",
                self.sensitive.len()
            )));
        }
        if self.publish.is_none() {
            return Err(Error::invalid(format!(
                "method '{method}' publishes two tables: write publish => 'quasi_identifiers' for one \
                 and publish => 'sensitive' for the other"
            )));
        }
        Ok(())
    }
}
