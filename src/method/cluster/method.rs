//! The registered methods that group rows by distance.

use super::{Clustering, Options, cluster, incomplete_rows};
use crate::error::{Error, Result};
use crate::method::{
    About, Family, Job, Method, MethodOption, Settings, TableShape, Takes, Unverified, Variant,
};
use crate::model::{Purpose, RowTable};

/// Grouping by one distance.
pub(in crate::method) struct Clusters {
    about: About,
    clustering: Clustering,
}

pub(in crate::method) static KAIM: Clusters = Clusters {
    about: About {
        name: "kaim",
        family: Family::Classes,
        summary: "values are missing: all rows stay, with the least loss",
        class_sizes: "k to 2k − 1 rows; no row is dropped",
    },
    clustering: Clustering::Kaim,
};

pub(in crate::method) static K_MEMBER: Clusters = Clusters {
    about: About {
        name: "k_member",
        family: Family::Classes,
        summary: "you want little loss on a small, complete table",
        class_sizes: "k rows or a few more; rows with missing values are dropped and counted",
    },
    clustering: Clustering::KMember,
};

pub(in crate::method) static BOTTOM_UP: Clusters = Clusters {
    about: About {
        name: "bottom_up",
        family: Family::Classes,
        summary: "you compare with the literature",
        class_sizes: "at least k rows",
    },
    clustering: Clustering::BottomUp,
};

impl Clusters {
    fn block_rows(&self, settings: &Settings) -> usize {
        settings.block_rows.unwrap_or_else(|| match settings.variant {
            Variant::Best => self.clustering.default_block_rows(),
            // No paper cuts a table into blocks.
            Variant::Paper => usize::MAX,
        })
    }
}

impl Method for Clusters {
    fn about(&self) -> &About {
        &self.about
    }

    fn accepts(&self, option: MethodOption, _given: &[MethodOption]) -> Takes {
        match option {
            MethodOption::Weights | MethodOption::BlockRows | MethodOption::Paper => Ok(()),
            MethodOption::Split if self.clustering == Clustering::BottomUp => Ok(()),
            MethodOption::Series if self.drops_incomplete_rows() => {
                Err("persons with missing values would wait for ever; {any}")
            }
            MethodOption::T if self.drops_incomplete_rows() => Err(
                "dropping the rows with missing values changes the distribution that t compares with; {any}",
            ),
            _ => self.family().accepts(option),
        }
    }

    fn suppresses(&self) -> bool {
        self.drops_incomplete_rows()
    }

    fn drops_incomplete_rows(&self) -> bool {
        self.clustering == Clustering::KMember
    }

    fn memory(&self, shape: &TableShape, settings: &Settings) -> usize {
        let in_work = shape.threads.saturating_mul(self.block_rows(settings));
        // Rows move when all blocks are done.
        let places = size_of::<u32>() * shape.rows;
        let codes = shape.codes.iter().copied();
        self.clustering.block_bytes(codes, in_work.min(shape.rows)) + places
    }

    fn form(&self, rows: &mut RowTable, job: &Job, settings: &Settings) -> Result<Unverified> {
        let suppressed =
            if self.drops_incomplete_rows() { incomplete_rows(rows, job.axes) } else { 0 };
        check_dropped(suppressed, rows.len(), job.requirement.k, settings)?;
        let options = Options {
            variant: settings.variant,
            weights: settings.weights,
            seed: &settings.seed(Purpose::Starts),
            block_rows: self.block_rows(settings),
            split: settings.split,
        };
        let classes = cluster(rows, job, self.clustering, &options)?;
        Ok(Unverified::Classes { classes, suppressed })
    }
}

/// Says what is missing before the method fails for want of rows.
fn check_dropped(dropped: usize, rows: usize, k: u32, settings: &Settings) -> Result<()> {
    let limit = settings.suppression_limit;
    if settings.is_whole && dropped as f64 / rows.max(1) as f64 > limit {
        return Err(Error::invalid(format!(
            "{dropped} of {rows} rows miss a quasi-identifier and would be dropped, more than \
             suppression_limit = {limit} allows: raise it, or use method '{}', which keeps them",
            KAIM.name()
        )));
    }
    let kept = rows - dropped;
    if dropped > 0 && kept < k as usize {
        return Err(Error::invalid(format!(
            "{kept} of {rows} rows miss no quasi-identifier and cannot form a class of k = {k}: lower k, or \
             use method '{}', which keeps the others",
            KAIM.name()
        )));
    }
    Ok(())
}
