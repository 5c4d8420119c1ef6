//! From codes to verified classes: one function for every approach.

use std::sync::Arc;

use datafusion::common::{Result, exec_err};

use super::metrics::ReleaseMetrics;
use crate::columnar::{Cells, CodedTable, ListedLevels};
use crate::engine::execution_error;
use crate::engine::method::Approach;
use crate::engine::spec::{Spec, Suppress};
use crate::error::Error;
use crate::hierarchy::{Axis, Shape, Tree};
use crate::measure::{loss, node_loss, precision};
use crate::method::Job;
use crate::method::alpha_k::{Grouping, alpha_k};
use crate::method::classfly::{
    self, Recoding, Variant, check_constraints, classfly, datafly, into_classes,
};
use crate::method::cluster::{self, Clustering, cluster, incomplete_rows};
use crate::method::layered::{self, Layered, layered};
use crate::method::partition::partition;
use crate::method::top_down::top_down;
use crate::model::{
    Cancel, Classes, Grades, Model, Placement, Requirement, RowTable, check_placement,
    shuffle_classes,
};

/// What classes are made from, beside the table.
pub(super) struct Former<'a> {
    pub(super) spec: &'a Spec,
    /// Modelled columns of the table; the privacy unit is the last of them.
    pub(super) modelled: usize,
    /// Levels of the sensitive values, where alpha is graded.
    pub(super) levels: Option<&'a ListedLevels>,
    pub(super) metrics: &'a ReleaseMetrics,
    pub(super) cancel: &'a Cancel,
}

/// Verified classes: the rows of the table are in their order.
pub(super) struct Formed {
    pub(super) classes: Classes,
    pub(super) cells: Cells,
}

impl Former<'_> {
    /// Bytes that forming classes takes for each row, beside the codes.
    pub(super) fn row_bytes(&self) -> usize {
        match self.spec.method.approach() {
            // What clusterings and layers take depends on their blocks: [`Former::work_bytes`].
            Approach::Partition(_)
            | Approach::Layer
            | Approach::Specialize
            | Approach::Cluster(_) => 0,
            // The class of every row and its place among the classes, and the keys of rows that mix.
            Approach::TwoTables => 24,
            Approach::Freeze(_) | Approach::FullDomain => {
                classfly::row_bytes(self.spec.quasi_identifiers.len(), &self.spec.constraints)
            }
        }
    }

    /// Puts the rows into classes and looks at them once more before anything leaves.
    pub(super) fn form(&self, table: &mut CodedTable) -> Result<Formed> {
        let rows = table.rows.len();
        let formed = match self.spec.method.approach() {
            Approach::Partition(cut) => {
                self.group(table, |rows, job| Ok((partition(rows, job, cut, self.spec.split)?, 0)))?
            }
            Approach::Layer => self.group(table, |rows, job| {
                let suppress = self.spec.suppress == Suppress::Rows;
                let options = layered::Options { split: self.spec.split, suppress };
                let Layered { classes, suppressed } = layered(rows, job, &options)?;
                Ok((classes, suppressed))
            })?,
            Approach::Specialize => self.group(table, |rows, job| Ok((top_down(rows, job)?, 0)))?,
            Approach::TwoTables => self.group(table, |rows, job| {
                let mix = self.spec.mix.unwrap_or(false).then_some(self.spec.seed);
                let Grouping { classes, suppressed } = alpha_k(rows, job, mix)?;
                let classes = shuffle_classes(rows, &classes, job.keys, self.spec.seed)?;
                Ok((classes, suppressed))
            })?,
            Approach::Freeze(variant) => self.recode(table, Some(variant))?,
            Approach::FullDomain => self.recode(table, None)?,
            Approach::Cluster(clustering) => self.cluster(table, clustering)?,
        };
        let classes = &formed.classes;
        self.metrics.suppressed_rows.add(rows - classes.rows());
        self.metrics.classes.set(classes.len());
        self.metrics.largest_class.set(classes.largest());
        Ok(formed)
    }

    /// Forms classes that satisfy one requirement, some rows behind them suppressed.
    fn group(
        &self,
        table: &mut CodedTable,
        method: impl FnOnce(&mut RowTable, &Job) -> crate::Result<(Classes, usize)>,
    ) -> Result<Formed> {
        let requirement = self.requirement(table)?;
        let timer = self.metrics.partition_time.timer();
        let axes: Vec<Axis> = table.domains.iter().map(|domain| domain.axis.clone()).collect();
        let job = Job {
            axes: &axes,
            requirement: &requirement,
            sensitive: &table.modelled,
            keys: &table.keys,
            cancel: self.cancel,
        };
        let (classes, suppressed) = method(&mut table.rows, &job).map_err(execution_error)?;
        timer.done();
        let _timer = self.metrics.verify_time.timer();
        let rows = &table.rows;
        let placement = Placement {
            id_at: &|at| rows.id_at(at),
            rows: rows.len(),
            classes: &classes,
            suppressed,
        };
        check_placement(&placement, &requirement, &table.modelled).map_err(execution_error)?;
        self.check_suppressed_rows(rows.len(), suppressed)?;
        // Two tables publish quasi-identifiers as they are.
        if self.spec.publish.is_none() {
            let axes: Vec<&Axis> = axes.iter().collect();
            // A row that is not published has lost everything.
            let lost = loss(rows, &classes, &axes) * classes.rows() as f64 + suppressed as f64;
            self.metrics.loss.set(lost / rows.len().max(1) as f64);
        }
        Ok(Formed { classes, cells: Cells::Covering })
    }

    fn check_suppressed_rows(&self, rows: usize, suppressed: usize) -> Result<()> {
        let limit = self.spec.suppression_limit();
        let share = suppressed as f64 / rows.max(1) as f64;
        if share > limit {
            return exec_err!(
                "{suppressed} of {rows} rows ({:.1} %) would be suppressed, more than \
                 suppression_limit = {limit} allows: raise it, relax k or the models, or anonymize a \
                 larger input",
                100.0 * share
            );
        }
        Ok(())
    }

    /// Bytes that forming classes takes beside [`Former::row_bytes`], once the codes are known.
    pub(super) fn work_bytes(&self, table: &CodedTable, threads: usize) -> usize {
        match self.spec.method.approach() {
            Approach::Cluster(clustering) => {
                let blocks = threads.saturating_mul(self.block_rows(clustering));
                let codes = table.domains.iter().map(|domain| domain.axis.codes);
                cluster::block_bytes(codes, blocks.min(table.rows.len()))
            }
            Approach::Layer => {
                let rows = table.rows.len();
                let in_work = threads.saturating_mul(layered::BLOCK_ROWS).min(rows);
                layered::block_bytes(table.rows.bytes() / rows.max(1), in_work)
            }
            // Rows go to their classes through a second table.
            Approach::TwoTables => table.rows.bytes(),
            _ => 0,
        }
    }

    fn block_rows(&self, clustering: Clustering) -> usize {
        self.spec.block_rows.unwrap_or_else(|| clustering.default_block_rows())
    }

    /// Groups rows by distance; `k_member` first drops those that miss a quasi-identifier.
    fn cluster(&self, table: &mut CodedTable, clustering: Clustering) -> Result<Formed> {
        let suppressed = match clustering {
            Clustering::KMember => {
                let axes: Vec<Axis> = table.domains.iter().map(|d| d.axis.clone()).collect();
                incomplete_rows(&table.rows, &axes)
            }
            Clustering::Kaim(_) | Clustering::BottomUp => 0,
        };
        self.check_dropped(suppressed, table.rows.len())?;
        let options = cluster::Options {
            weights: &self.spec.weights,
            seed: &self.spec.seed,
            block_rows: self.block_rows(clustering),
        };
        self.group(table, |rows, job| Ok((cluster(rows, job, clustering, &options)?, suppressed)))
    }

    fn check_dropped(&self, dropped: usize, rows: usize) -> Result<()> {
        let limit = self.spec.suppression_limit();
        if dropped as f64 / rows.max(1) as f64 > limit {
            return exec_err!(
                "{dropped} of {rows} rows miss a quasi-identifier and would be dropped, more than \
                 suppression_limit = {limit} allows: raise it, or use method 'kaim', which keeps them"
            );
        }
        let (kept, k) = (rows - dropped, self.spec.k);
        if dropped > 0 && kept < k as usize {
            return exec_err!(
                "{kept} of {rows} rows miss no quasi-identifier and cannot form a class of k = {k}: \
                 lower k, or use method 'kaim', which keeps the others"
            );
        }
        Ok(())
    }

    /// What every class must satisfy; models look at the columns in the order of the layout.
    fn requirement(&self, table: &CodedTable) -> Result<Requirement> {
        let models = &self.spec.models;
        let units = usize::from(self.spec.privacy_unit.is_some());
        let mut required = Vec::new();
        for column in 0..self.modelled - units {
            required.extend(models.l.map(|l| Model::Distinct { column, at_least: l, unit: false }));
            required.extend(models.entropy_l.map(|l| Model::Entropy { column, l }));
            required.extend(models.t.map(|t| Model::Closeness { column, t }));
            required.extend(models.alpha.map(|alpha| Model::Share { column, alpha }));
            if let (Some(grading), Some(listed)) = (&self.spec.grading, self.levels) {
                let values = &table.modelled_values[column];
                let levels = listed.of(values).map_err(execution_error)?;
                let grades = Grades::new(levels, grading.shares(listed), grading.scope);
                let in_column = |error: Error| match error {
                    Error::Invalid(message) => Error::invalid(format!(
                        "option 'sensitivity', column '{}': {message}",
                        values.name
                    )),
                    other => other,
                };
                let grades = Arc::new(grades.map_err(in_column).map_err(execution_error)?);
                required.push(Model::Graded { column, grades });
            }
        }
        if units == 1 {
            let column = self.modelled - 1;
            required.push(Model::Distinct { column, at_least: self.spec.k, unit: true });
        }
        Ok(Requirement { k: self.spec.k, models: required })
    }

    /// Satisfies the constraints by freezing rows, or without a variant by whole columns.
    fn recode(&self, table: &mut CodedTable, variant: Option<Variant>) -> Result<Formed> {
        let timer = self.metrics.partition_time.timer();
        let CodedTable { rows, domains, .. } = table;
        let trees = domains.iter().map(|domain| tree_of(&domain.axis));
        let trees = trees.collect::<crate::Result<Vec<&Tree>>>().map_err(execution_error)?;
        let constraints = &self.spec.constraints;
        let job = classfly::Job { trees: &trees, constraints, cancel: self.cancel };
        let recoding = match variant {
            Some(variant) => classfly(rows, &job, variant),
            None => {
                let share = self.spec.suppression_limit;
                datafly(rows, &job, share.map(|share| (share * rows.len() as f64) as usize))
            }
        };
        let recoding = recoding.map_err(execution_error)?;
        timer.done();
        let _timer = self.metrics.verify_time.timer();
        check_constraints(rows, &job, &recoding).map_err(execution_error)?;
        self.check_suppressed(rows, &recoding)?;
        self.metrics.loss.set(node_loss(&recoding.nodes, &trees));
        self.metrics.precision(precision(&recoding.nodes, &trees));
        let drop_suppressed = self.spec.suppress == Suppress::Rows;
        let published =
            into_classes(recoding, rows, &job, drop_suppressed).map_err(execution_error)?;
        Ok(Formed { classes: published.classes, cells: Cells::Nodes(published.nodes) })
    }

    fn check_suppressed(&self, rows: &RowTable, recoding: &Recoding) -> Result<()> {
        for component in &recoding.components {
            let columns = self.spec.column_names(&component.columns);
            self.metrics.suppressed_in(&columns, component.suppressed.len());
        }
        let (share, limit) = (recoding.suppressed_share(), self.spec.suppression_limit());
        if share > limit {
            let rows = rows.len();
            let counts = recoding.components.iter().map(|component| {
                let columns = self.spec.column_names(&component.columns);
                format!("{} of {rows} rows in [{columns}]", component.suppressed.len())
            });
            return exec_err!(
                "{:.1} % of the cells would be suppressed ({}), more than suppression_limit = {limit} \
                 allows: raise it, lower the k of a constraint, or give coarser hierarchies",
                100.0 * share,
                counts.collect::<Vec<String>>().join(", ")
            );
        }
        Ok(())
    }
}

fn tree_of(axis: &Axis) -> crate::Result<&Tree> {
    match &axis.shape {
        Shape::Tree(tree) => Ok(tree),
        Shape::Line(_) | Shape::Set => Err(Error::bug("a quasi-identifier has no hierarchy")),
    }
}
