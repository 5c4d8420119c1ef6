//! The columns of the table.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// A column; the discriminant is its position in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Age,
    Sex,
    Race,
    MaritalStatus,
    Education,
    NativeCountry,
    Workclass,
    Occupation,
    HoursPerWeek,
    SalaryClass,
    Zip,
    BirthDate,
    PersonId,
}

impl Column {
    /// All columns in their order.
    pub(super) const ALL: [Self; 13] = [
        Self::Age,
        Self::Sex,
        Self::Race,
        Self::MaritalStatus,
        Self::Education,
        Self::NativeCountry,
        Self::Workclass,
        Self::Occupation,
        Self::HoursPerWeek,
        Self::SalaryClass,
        Self::Zip,
        Self::BirthDate,
        Self::PersonId,
    ];

    /// The name in SQL.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Sex => "sex",
            Self::Race => "race",
            Self::MaritalStatus => "marital_status",
            Self::Education => "education",
            Self::NativeCountry => "native_country",
            Self::Workclass => "workclass",
            Self::Occupation => "occupation",
            Self::HoursPerWeek => "hours_per_week",
            Self::SalaryClass => "salary_class",
            Self::Zip => "zip",
            Self::BirthDate => "birth_date",
            Self::PersonId => "person_id",
        }
    }

    /// The column of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    fn field(self) -> Field {
        let data_type = match self {
            Self::Age | Self::HoursPerWeek => DataType::Int32,
            Self::BirthDate => DataType::Date32,
            Self::PersonId => DataType::Int64,
            _ => DataType::Utf8View,
        };
        Field::new(self.name(), data_type, self != Self::PersonId)
    }
}

/// The schema of the whole table. It does not depend on the options, so that samples with and without
/// missing values can be exchanged for each other.
pub(super) fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> =
        LazyLock::new(|| Arc::new(Schema::new(Column::ALL.map(Column::field).to_vec())));
    Arc::clone(&SCHEMA)
}
