//! Hours and pay: what depends on more columns than a table of weights can list.

use super::categories::FEMALE;
use super::random::Choices;

/// Longest working week.
const MOST_HOURS: u32 = 99;

/// How an occupation is worked, by code: 0 often part-time, 1 regular, 2 long, 3 without a clock.
const RHYTHM: [u8; 14] = [2, 2, 1, 1, 2, 2, 2, 0, 0, 1, 1, 2, 0, 3];

/// Part-time, forty hours and overtime for each rhythm.
const SHARES: [[f64; 3]; 4] =
    [[0.38, 0.50, 0.12], [0.12, 0.70, 0.18], [0.10, 0.48, 0.42], [0.18, 0.27, 0.55]];

/// How the shares shift among the young, those in between, and those of pension age.
const PHASES: [[f64; 3]; 3] = [[4.0, 1.0, 0.3], [1.0, 1.0, 1.0], [4.0, 1.0, 0.5]];

/// How the shares shift for women, then men.
const SEXES: [[f64; 3]; 2] = [[1.7, 1.0, 0.6], [1.0, 1.0, 1.2]];

/// What decides about the working week, as codes (the age in years).
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) occupation: u8,
    pub(super) workclass: u8,
    pub(super) age: u8,
    pub(super) sex: u8,
}

/// The distributions of the working week; a picked outcome is one hour less than the week has.
pub(super) fn hours_choices() -> Choices {
    let mut conditions = Vec::new();
    for shares in SHARES {
        for phase in PHASES {
            for sex in SEXES {
                let share = |kind: usize| shares[kind] * phase[kind] * sex[kind];
                conditions.push(week([share(0), share(1), share(2)]));
            }
        }
    }
    Choices::new(conditions)
}

/// The condition of [`hours_choices`] that a job falls under.
#[inline]
pub(super) fn hours_condition(job: Job) -> usize {
    let usual = RHYTHM[usize::from(job.occupation)];
    let rhythm = match job.workclass {
        1 | 2 => 3,
        3 => 0,
        4.. => usual.min(1),
        0 => usual,
    };
    let phase = usize::from(job.age >= 22) + usize::from(job.age >= 65);
    let sex = usize::from(job.sex != FEMALE);
    (usize::from(rhythm) * PHASES.len() + phase) * SEXES.len() + sex
}

/// Weights of 1 to 99 hours. People report round numbers, so multiples of five stand out.
fn week([part, forty, long]: [f64; 3]) -> Vec<f64> {
    let hump = |middle: f64, width: f64| -> Vec<f64> {
        let raw: Vec<f64> = (1..=MOST_HOURS)
            .map(|hours| {
                let distance = (f64::from(hours) - middle) / width;
                let round = if hours % 5 == 0 { 5.0 } else { 1.0 };
                round * (-0.5 * distance * distance).exp()
            })
            .collect();
        let total: f64 = raw.iter().sum();
        raw.into_iter().map(|weight| weight / total).collect()
    };
    let (below, above) = (hump(21.0, 8.0), hump(51.0, 8.0));
    (0..MOST_HOURS as usize)
        .map(|hour| {
            let spike = if hour + 1 == 40 { forty } else { 0.0 };
            part * below[hour] + spike + long * above[hour] + 2e-5
        })
        .collect()
}

/// Everything that moves the salary class, as codes (age in years, hours as they are).
#[derive(Debug, Clone, Copy)]
pub(super) struct Earner {
    pub(super) education: u8,
    pub(super) age: u8,
    pub(super) hours: u8,
    pub(super) sex: u8,
    pub(super) marital_status: u8,
    pub(super) occupation: u8,
}

/// Decides who earns more than 50K: a logistic model with whole-number scores, 16 to the unit.
#[derive(Debug)]
pub(super) struct Salaries {
    by_age: [i32; 128],
    /// Chance of the upper class as a fraction of 2³², for scores from -128 to 127.
    chance: [u32; 256],
}

const BASE: i32 = -26;
const BY_EDUCATION: [i32; 16] =
    [-40, -32, -28, -24, -20, -18, -16, -12, 0, 5, 8, 9, 20, 27, 38, 40];
const BY_MARITAL_STATUS: [i32; 7] = [14, 14, 0, 0, 0, 0, -4];
const BY_OCCUPATION: [i32; 14] = [14, 10, 8, -2, 4, 6, 0, -16, -36, 2, -6, 0, -12, -16];
const MALE_BONUS: i32 = 8;

impl Salaries {
    /// Tabulates the model.
    pub(super) fn new() -> Self {
        // Pay climbs until fifty and declines slowly from then on.
        let by_age = std::array::from_fn(|age| {
            let distance = age as i32 - 50;
            -distance * distance / if distance < 0 { 16 } else { 50 }
        });
        let chance = std::array::from_fn(|index| {
            let score = (index as f64 - 128.0) / 16.0;
            (2f64.powi(32) / (1.0 + (-score).exp())) as u32
        });
        Self { by_age, chance }
    }

    /// The salary class (a code) for a uniform draw.
    #[inline]
    pub(super) fn pick(&self, earner: Earner, draw: u32) -> u8 {
        let overtime = i32::from(earner.hours.min(60)) - 40;
        let score = BASE
            + BY_EDUCATION[usize::from(earner.education)]
            + self.by_age[usize::from(earner.age) % self.by_age.len()]
            + if overtime > 0 { overtime / 2 } else { overtime }
            + if earner.sex == FEMALE { 0 } else { MALE_BONUS }
            + BY_MARITAL_STATUS[usize::from(earner.marital_status)]
            + BY_OCCUPATION[usize::from(earner.occupation)];
        let index = (score + 128).clamp(0, 255) as usize;
        u8::from(draw < self.chance[index])
    }
}
