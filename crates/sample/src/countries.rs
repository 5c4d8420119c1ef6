//! Countries of birth and where people live.

use super::categories::{Category, category};

const NORTH: &[&str] = &["North-America", "America"];
const CARIBBEAN: &[&str] = &["Caribbean", "America"];
const CENTRAL: &[&str] = &["Central-America", "America"];
const SOUTH: &[&str] = &["South-America", "America"];
const WEST: &[&str] = &["Western-Europe", "Europe"];
const MEDITERRANEAN: &[&str] = &["Southern-Europe", "Europe"];
const EAST: &[&str] = &["Eastern-Europe", "Europe"];
const EAST_ASIA: &[&str] = &["East-Asia", "Asia"];
const SOUTHEAST_ASIA: &[&str] = &["Southeast-Asia", "Asia"];
const SOUTH_ASIA: &[&str] = &["South-and-West-Asia", "Asia"];

/// Weights by race: White, Black, Asian-Pac-Islander, Amer-Indian-Eskimo, Other.
#[rustfmt::skip]
pub(super) const NATIVE_COUNTRY: &[Category] = &[
    category("United-States",      NORTH,          &[9200.0, 9000.0, 3000.0, 9500.0, 4800.0]),
    category("Canada",             NORTH,          &[45.0, 4.0, 4.0, 40.0, 5.0]),
    category("Puerto-Rico",        CARIBBEAN,      &[32.0, 60.0, 2.0, 5.0, 500.0]),
    category("Cuba",               CARIBBEAN,      &[34.0, 15.0, 1.0, 1.0, 90.0]),
    category("Dominican-Republic", CARIBBEAN,      &[12.0, 70.0, 1.0, 1.0, 420.0]),
    category("Jamaica",            CARIBBEAN,      &[1.0, 260.0, 5.0, 1.0, 30.0]),
    category("Haiti",              CARIBBEAN,      &[0.5, 180.0, 0.5, 0.5, 10.0]),
    category("Trinidad-Tobago",    CARIBBEAN,      &[0.5, 70.0, 20.0, 0.5, 20.0]),
    category("US-Islands",         CARIBBEAN,      &[1.0, 20.0, 20.0, 1.0, 8.0]),
    category("Mexico",             CENTRAL,        &[210.0, 6.0, 4.0, 180.0, 2300.0]),
    category("El-Salvador",        CENTRAL,        &[30.0, 2.0, 1.0, 10.0, 420.0]),
    category("Guatemala",          CENTRAL,        &[18.0, 2.0, 1.0, 30.0, 300.0]),
    category("Honduras",           CENTRAL,        &[4.0, 8.0, 0.5, 5.0, 90.0]),
    category("Nicaragua",          CENTRAL,        &[10.0, 8.0, 0.5, 4.0, 110.0]),
    category("Colombia",           SOUTH,          &[17.0, 8.0, 1.0, 3.0, 250.0]),
    category("Ecuador",            SOUTH,          &[7.0, 2.0, 1.0, 8.0, 160.0]),
    category("Peru",               SOUTH,          &[8.0, 1.0, 3.0, 10.0, 140.0]),
    category("England",            WEST,           &[38.0, 22.0, 12.0, 1.0, 6.0]),
    category("Scotland",           WEST,           &[6.0, 0.2, 0.2, 0.2, 0.5]),
    category("Ireland",            WEST,           &[12.0, 0.2, 0.2, 0.2, 0.5]),
    category("France",             WEST,           &[12.0, 6.0, 4.0, 0.2, 3.0]),
    category("Germany",            WEST,           &[55.0, 28.0, 6.0, 1.0, 6.0]),
    category("Netherlands",        WEST,           &[4.0, 0.5, 1.0, 0.2, 1.0]),
    category("Italy",              MEDITERRANEAN,  &[32.0, 0.5, 0.3, 0.2, 1.0]),
    category("Portugal",           MEDITERRANEAN,  &[16.0, 4.0, 0.3, 0.2, 4.0]),
    category("Greece",             MEDITERRANEAN,  &[13.0, 0.2, 0.3, 0.2, 1.0]),
    category("Yugoslavia",         MEDITERRANEAN,  &[8.0, 0.1, 0.1, 0.1, 0.5]),
    category("Poland",             EAST,           &[28.0, 0.3, 0.2, 0.1, 0.5]),
    category("Hungary",            EAST,           &[6.0, 0.1, 0.1, 0.1, 0.3]),
    category("China",              EAST_ASIA,      &[1.0, 0.5, 980.0, 0.5, 5.0]),
    category("Hong-Kong",          EAST_ASIA,      &[0.5, 0.3, 200.0, 0.2, 2.0]),
    category("Taiwan",             EAST_ASIA,      &[0.5, 0.2, 400.0, 0.2, 1.0]),
    category("Japan",              EAST_ASIA,      &[6.0, 6.0, 320.0, 0.5, 4.0]),
    category("South-Korea",        EAST_ASIA,      &[3.0, 3.0, 640.0, 0.5, 4.0]),
    category("Philippines",        SOUTHEAST_ASIA, &[6.0, 2.0, 1500.0, 3.0, 30.0]),
    category("Vietnam",            SOUTHEAST_ASIA, &[0.5, 0.5, 700.0, 0.3, 3.0]),
    category("Cambodia",           SOUTHEAST_ASIA, &[0.1, 0.1, 150.0, 0.1, 1.0]),
    category("Laos",               SOUTHEAST_ASIA, &[0.1, 0.1, 150.0, 0.1, 1.0]),
    category("Thailand",           SOUTHEAST_ASIA, &[1.0, 0.5, 160.0, 0.1, 1.0]),
    category("India",              SOUTH_ASIA,     &[12.0, 3.0, 900.0, 1.0, 70.0]),
    category("Iran",               SOUTH_ASIA,     &[20.0, 0.5, 60.0, 0.5, 15.0]),
];

/// Origins that settle differently. The first five are the races, for those born in the United States,
/// in Asia or in Europe; the last gathers who comes from the south of the continent.
pub(super) const ORIGINS: usize = 6;

/// The origin that a race (a code) and a country of birth amount to.
pub(super) fn origin(race: usize, country: &Category) -> usize {
    match country.groups[0] {
        "Caribbean" | "Central-America" | "South-America" => ORIGINS - 1,
        _ => race,
    }
}

/// Weight of the ten zip regions (first digits) for each origin.
#[rustfmt::skip]
pub(super) const REGIONS_BY_ORIGIN: [[f64; 10]; ORIGINS] = [
    [8.0, 10.0, 10.0, 12.0, 13.0, 7.0, 9.0, 11.0, 8.0, 12.0],
    [4.0, 12.0, 17.0, 23.0, 12.0, 1.5, 9.0, 14.0, 1.5, 6.0],
    [8.0, 13.0, 7.0, 5.0, 4.0, 3.0, 6.0, 9.0, 4.0, 41.0],
    [2.0, 3.0, 6.0, 4.0, 5.0, 14.0, 3.0, 19.0, 27.0, 17.0],
    [9.0, 14.0, 5.0, 9.0, 3.0, 1.0, 6.0, 17.0, 9.0, 27.0],
    [11.0, 15.0, 4.0, 17.0, 2.0, 1.0, 6.0, 17.0, 7.0, 20.0],
];
