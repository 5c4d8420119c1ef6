//! A choice among names.

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use super::{Accepts, Kind, Misread, Text, Wanted};
use crate::engine::options::{Place, Value};
use crate::error::{Error, Result};

/// The name of one of several things, upper and lower case alike.
pub struct Choice<T>(PhantomData<T>);

/// What an option with a choice among names holds. A name that is not known is refused where SQL and files are read; the
/// setters of a Rust program have no error to return, so [`get`](Self::get) returns it when the request is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen<T>(Option<Result<T, Error>>);

impl<T> Default for Chosen<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<T> for Chosen<T> {
    fn from(choice: T) -> Self {
        Self(Some(Ok(choice)))
    }
}

impl<T> Chosen<T> {
    /// Whether the option is written.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl<T: Copy + PartialEq> Chosen<T> {
    /// What was chosen, `None` if the option is left out.
    pub fn get(&self) -> Result<Option<T>> {
        self.0.clone().transpose()
    }

    /// Whether this was chosen.
    pub fn is(&self, choice: T) -> bool {
        self.0 == Some(Ok(choice))
    }
}

impl<T: FromStr<Err = Error> + Display> Kind for Choice<T> {
    type Field = Chosen<T>;

    const WANTED: Wanted = Text::WANTED;

    fn read(value: Value, place: Place) -> Result<Self::Field, Misread> {
        let name = Text::read(value, place)?;
        let choice = name.map(|name| name.parse().map_err(Misread::Complete)).transpose()?;
        Ok(Chosen(choice.map(Ok)))
    }

    fn for_manifest(field: &Self::Field) -> Option<Value> {
        let choice = field.0.as_ref()?.as_ref().ok()?;
        Some(choice.to_string().as_str().into())
    }
}

impl<T: FromStr<Err = Error> + Display, N: ToString> Accepts<N> for Choice<T> {
    fn accept(given: N) -> Self::Field {
        Chosen(Some(given.to_string().parse()))
    }
}
