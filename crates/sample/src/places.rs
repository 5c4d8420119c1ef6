//! Zip codes: ten regions with cities, towns and country, settled unevenly.

use super::categories::RACE;
use super::countries::{NATIVE_COUNTRY, REGIONS_BY_ORIGIN, origin};
use super::random::{Choices, Draws};

/// Populated areas (three digits) of a region.
const AREAS: usize = 60;

/// About 18 000 zip codes and how many live in each.
#[derive(Debug)]
pub(super) struct Places {
    /// The origin for every race and country of birth, race by race.
    origins: Vec<usize>,
    /// By origin.
    regions: Choices,
    /// Per region: the number of its first code, and the draw among its codes.
    zips: Vec<(u32, Choices)>,
    codes: Vec<String>,
}

impl Places {
    /// Lays out the country, the same for every seed.
    pub(super) fn new() -> Self {
        let mut codes = Vec::new();
        let zips = (0..REGIONS_BY_ORIGIN[0].len() as u64)
            .map(|region| {
                let first = codes.len() as u32;
                (first, settle(region, &mut codes))
            })
            .collect();
        let origins = (0..RACE.len()).flat_map(|race| {
            let countries = NATIVE_COUNTRY.iter();
            countries.map(move |country| origin(race, country))
        });
        Self {
            origins: origins.collect(),
            regions: Choices::new(REGIONS_BY_ORIGIN.map(Vec::from)),
            zips,
            codes,
        }
    }

    /// All zip codes, in the order of the numbers that [`Places::pick`] returns.
    pub(super) fn codes(&self) -> &[String] {
        &self.codes
    }

    /// The number of the zip code where somebody of a race and a country of birth (codes) lives.
    #[inline]
    pub(super) fn pick(&self, race: u8, country: u8, draw: u64) -> u32 {
        let pair = usize::from(race) * NATIVE_COUNTRY.len() + usize::from(country);
        let origin = self.origins[pair];
        let region = self.regions.pick(origin, (draw >> 32) as u32);
        let (first, zips) = &self.zips[region as usize];
        first + zips.pick(0, draw as u32)
    }
}

/// Appends the codes of a region and weighs them: the n-th largest area has a share of 1/n, spread
/// over more codes the larger it is.
fn settle(region: u64, codes: &mut Vec<String>) -> Choices {
    let mut weights = Vec::new();
    let areas = shuffled(Draws::new(region, 0));
    for (rank, area) in areas.into_iter().take(AREAS).enumerate() {
        let districts = 12 + 78 * 6 / (6 + rank);
        let share = |nth: usize| ((nth + 1) as f64).powf(-0.5);
        let total: f64 = (0..districts).map(share).sum();
        let numbers = shuffled(Draws::new(region, 1 + area));
        for (nth, district) in numbers.into_iter().take(districts).enumerate() {
            weights.push(share(nth) / total / (rank + 1) as f64);
            codes.push(format!("{region}{area:02}{district:02}"));
        }
    }
    Choices::new([weights])
}

/// The numbers 0..100 in an order of their own.
fn shuffled(draws: Draws) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..100).collect();
    numbers.sort_by_key(|&number| draws.at(number));
    numbers
}
