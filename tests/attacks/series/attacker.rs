//! What the attacker makes of the nights. Nothing here is shared with `series_report`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What the attacker sees of a release: who is in which class, and the values of every class.
#[derive(Default)]
pub(super) struct Night {
    pub(super) class_of: BTreeMap<i64, i64>,
    pub(super) values: BTreeMap<i64, BTreeMap<String, usize>>,
}

/// Who looks the same on all nights.
pub(super) struct Crowds {
    pub(super) smallest: usize,
    /// Shares of the persons who were ever published.
    pub(super) below_k: f64,
    pub(super) alone: f64,
}

/// How much more likely than in their class a value of somebody is.
#[derive(Default)]
pub(super) struct Gain {
    /// The most by which a posterior exceeds the share of the value in the class of the night.
    pub(super) most: f64,
    /// Persons of whom a value is likelier than 0.9, and those of them who have it.
    pub(super) certain: usize,
    pub(super) right: usize,
    pub(super) persons: usize,
}

impl Night {
    /// From class, person and value of every row.
    pub(super) fn new(rows: Vec<Vec<Option<String>>>) -> Self {
        let mut night = Self::default();
        for row in rows {
            let [class, who, value] = row.try_into().unwrap();
            let class: i64 = class.unwrap().parse().unwrap();
            let again = night.class_of.insert(who.unwrap().parse().unwrap(), class);
            assert_eq!(again, None, "somebody has two rows");
            *night.values.entry(class).or_default().entry(value.unwrap()).or_default() += 1;
        }
        night
    }

    pub(super) fn rows(&self, class: i64) -> usize {
        self.values[&class].values().sum()
    }

    pub(super) fn smallest(&self) -> usize {
        self.values.keys().map(|class| self.rows(*class)).min().unwrap_or(usize::MAX)
    }

    fn members(&self) -> BTreeMap<i64, BTreeSet<i64>> {
        let mut members: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for (who, class) in &self.class_of {
            members.entry(*class).or_default().insert(*who);
        }
        members
    }
}

pub(super) fn crowds(nights: &[Night], k: usize) -> Crowds {
    let everybody: BTreeSet<i64> =
        nights.iter().flat_map(|night| night.class_of.keys()).copied().collect();
    let mut together: HashMap<Vec<Option<i64>>, usize> = HashMap::new();
    for who in &everybody {
        let history = nights.iter().map(|night| night.class_of.get(who).copied()).collect();
        *together.entry(history).or_default() += 1;
    }
    let persons = everybody.len().max(1) as f64;
    let of = |is: &dyn Fn(usize) -> bool| {
        together.values().filter(|crowd| is(**crowd)).sum::<usize>() as f64 / persons
    };
    Crowds {
        smallest: together.values().copied().min().unwrap_or(usize::MAX),
        below_k: of(&|crowd| crowd < k),
        alone: of(&|crowd| crowd == 1),
    }
}

/// Everybody whose value one night minus another tells.
pub(super) fn told_by_subtraction(nights: &[Night]) -> BTreeSet<i64> {
    let mut told = BTreeSet::new();
    let members: Vec<_> = nights.iter().map(Night::members).collect();
    for (one, these) in nights.iter().zip(&members) {
        for other in nights.iter().filter(|other| !std::ptr::eq(*other, one)) {
            for (class, persons) in these.iter().filter(|(class, _)| one.values[class].len() > 1) {
                let there: BTreeSet<i64> =
                    persons.iter().filter_map(|who| other.class_of.get(who)).copied().collect();
                for class_there in there {
                    let is_there = |who: &&i64| other.class_of.get(who) == Some(&class_there);
                    let left: Vec<i64> =
                        persons.iter().filter(|who| !is_there(who)).copied().collect();
                    let rest = minus(&one.values[class], &other.values[&class_there]);
                    if !left.is_empty()
                        && rest.values().sum::<usize>() == left.len()
                        && rest.len() == 1
                    {
                        told.extend(left);
                    }
                }
            }
        }
    }
    told
}

fn minus<'a>(
    one: &'a BTreeMap<String, usize>,
    other: &BTreeMap<String, usize>,
) -> BTreeMap<&'a str, usize> {
    let rest = one.iter().map(|(value, rows)| {
        (value.as_str(), rows.saturating_sub(other.get(value).copied().unwrap_or(0)))
    });
    rest.filter(|(_, rows)| *rows > 0).collect()
}

/// The most likely values of everybody on the last of the nights, by iterative proportional fitting: values rarely
/// change, so whatever explains the counts of all classes on all nights is likely.
pub(super) fn posterior(nights: &[Night], truth: &HashMap<i64, String>) -> Gain {
    let (last, _) = nights.split_last().unwrap();
    let values: BTreeSet<&String> =
        nights.iter().flat_map(|n| n.values.values().flat_map(BTreeMap::keys)).collect();
    let values: Vec<&String> = values.into_iter().collect();
    let mut beliefs: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for who in nights.iter().flat_map(|night| night.class_of.keys()) {
        beliefs.entry(*who).or_insert_with(|| vec![1.0 / values.len() as f64; values.len()]);
    }
    for _ in 0..4 {
        // Values may have changed since, so no count of an earlier night rules one out.
        nights.iter().for_each(|night| fit(night, &values, &mut beliefs, 0.01));
    }
    for _ in 0..4 {
        fit(last, &values, &mut beliefs, 0.0);
    }
    let mut gain = Gain { persons: last.class_of.len(), ..Gain::default() };
    for (who, class) in &last.class_of {
        let belief = &beliefs[who];
        for (value, likely) in values.iter().zip(belief) {
            let rows = last.values[class].get(*value).copied().unwrap_or(0);
            gain.most = gain.most.max(likely - rows as f64 / last.rows(*class) as f64);
            if *likely > 0.9 {
                gain.certain += 1;
                gain.right += usize::from(truth.get(who) == Some(value));
            }
        }
    }
    gain
}

/// Scales the beliefs about the members of every class until they add up to its counts, and each to 1.
fn fit(night: &Night, values: &[&String], beliefs: &mut BTreeMap<i64, Vec<f64>>, doubt: f64) {
    for (class, members) in night.members() {
        let size = night.rows(class) as f64;
        for (at, value) in values.iter().enumerate() {
            let rows = night.values[&class].get(*value).copied().unwrap_or(0) as f64;
            let expected = rows * (1.0 - doubt) + doubt * size / values.len() as f64;
            let sum: f64 = members.iter().map(|who| beliefs[who][at]).sum();
            if sum > 0.0 {
                for who in &members {
                    beliefs.get_mut(who).unwrap()[at] *= expected / sum;
                }
            }
        }
        for who in &members {
            let belief = beliefs.get_mut(who).unwrap();
            let sum: f64 = belief.iter().sum();
            if sum > 0.0 {
                belief.iter_mut().for_each(|likely| *likely /= sum);
            }
        }
    }
}
