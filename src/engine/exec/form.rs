//! From codes to verified classes: one function for every approach.

use std::sync::Arc;

use datafusion::common::{Column, Result, exec_err};

use super::metrics::ReleaseMetrics;
use super::requirement::Asked;
use crate::association::DEFAULT_WORK;
use crate::columnar::{
    Cells, CodedTable, ColumnGroups, Domain, ListedLevels, ModelledValues, Ranges,
};
use crate::engine::execution_error;
use crate::engine::method::{Approach, SliceBy};
use crate::engine::spec::{HierarchySource, Spec, Suppress};
use crate::error::Error;
use crate::hierarchy::{Axis, Shape, Tree};
use crate::measure::{cover_loss, loss, node_loss, precision};
use crate::method::Job;
use crate::method::alike::{self, shuffle_alike};
use crate::method::alpha_k::{Grouping, alpha_k};
use crate::method::classfly::{
    self, Recoding, Search, check_constraints, classfly, datafly, into_classes,
};
use crate::method::cluster::{self, Clustering, cluster, incomplete_rows};
use crate::method::layered::{self, Layered, layered};
use crate::method::partition::partition;
use crate::method::slicing::{self, Sliced};
use crate::method::top_down::top_down;
use crate::model::{
    Cancel, Classes, Model, Persons, Placement, Purpose, Requirement, RowTable, Seed,
    check_placement, shuffle_classes,
};

/// What classes are made from, beside the table.
pub(super) struct Former<'a> {
    pub(super) spec: &'a Spec,
    /// Modelled columns of the table; the privacy unit is the last of them.
    pub(super) modelled: usize,
    /// Levels of the sensitive values, where alpha is graded.
    pub(super) levels: Option<&'a ListedLevels>,
    /// How often each code occurs in the whole table, by modelled column, where the table is a part of it.
    pub(super) populations: &'a [Option<Arc<[u64]>>],
    /// Whether suppressed rows are counted against the limit here; parts of a table are looked at together.
    pub(super) is_whole: bool,
    /// Tells parts of a table apart, where each needs a secret of its own.
    pub(super) part: Option<u32>,
    pub(super) metrics: &'a ReleaseMetrics,
    pub(super) cancel: &'a Cancel,
}

/// Verified classes: the rows of the table are in their order.
pub(super) struct Formed {
    pub(super) classes: Classes,
    pub(super) cells: Cells,
}

impl Former<'_> {
    /// Bytes that forming classes and checking them takes beside the table of `rows` rows of
    /// `row_bytes` bytes.
    pub(super) fn work_bytes<'x>(
        &self,
        axes: impl Iterator<Item = &'x Axis> + Clone,
        (rows, row_bytes): (usize, usize),
        threads: usize,
    ) -> usize {
        let k = self.spec.k.max(1) as usize;
        // Whether each row was seen, and where each class ends, twice while they are put together.
        let persons = if self.spec.privacy_unit.is_some() { Persons::work_bytes(rows) } else { 0 };
        let check = rows / 8 + 8 * (rows / k) + persons;
        let alike = match self.spec.method.approach() {
            Approach::TwoTables
            | Approach::Slice(_)
            | Approach::Freeze(_)
            | Approach::FullDomain => 0,
            _ => alike::work_bytes(rows, rows / k),
        };
        // Cutting counts the values of every column, on every thread.
        let counted = |axis: &Axis| (axis.codes as usize).min(rows.saturating_mul(8));
        let counters = threads * size_of::<u32>() * axes.clone().map(counted).sum::<usize>();
        check
            + alike
            + counters
            + match self.spec.method.approach() {
                Approach::Partition(_) | Approach::Specialize => 0,
                Approach::Cluster(clustering) => {
                    let blocks = threads.saturating_mul(self.block_rows(clustering));
                    cluster::block_bytes(axes.map(|axis| axis.codes), blocks.min(rows))
                }
                Approach::Layer => layered::work_bytes(row_bytes, rows, k, threads),
                // The class of every row, its place among the classes and the keys of rows that mix;
                // rows go to their classes through a second table.
                Approach::TwoTables => rows * (24 + row_bytes),
                // Besides, rows are put together in a second table.
                Approach::Slice(_) => {
                    let attributes = self.spec.quasi_identifiers.len() + 1;
                    rows * (slicing::row_bytes(attributes) + row_bytes)
                }
                Approach::Freeze(_) | Approach::FullDomain => {
                    let columns = self.spec.quasi_identifiers.len();
                    rows * classfly::row_bytes(columns, &self.spec.constraints)
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
                let mixing = self.seed(Purpose::Mixing);
                let Grouping { classes, suppressed } =
                    alpha_k(rows, job, self.spec.variant, mixing)?;
                let seed = self.seed(Purpose::ClassNumbers);
                let classes = shuffle_classes(rows, &classes, job.keys, seed)?;
                Ok((classes, suppressed))
            })?,
            Approach::Freeze(search) => self.recode(table, Some(search))?,
            Approach::FullDomain => self.recode(table, None)?,
            Approach::Cluster(clustering) => self.cluster(table, clustering)?,
            Approach::Slice(by) => self.slice(table, by)?,
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
        let (mut classes, suppressed) = method(&mut table.rows, &job).map_err(execution_error)?;
        // Two tables were put in an order of their own.
        if self.spec.publish.is_none() {
            let secret = (&table.keys, self.seed(Purpose::AlikeClasses));
            let shuffled =
                shuffle_alike(&mut table.rows, &classes, (&axes, self.publishes_means()), secret);
            classes = shuffled.map_err(execution_error)?;
        }
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
        if let (Some(_), Some(units)) = (&self.spec.privacy_unit, table.modelled.last()) {
            self.metrics.persons(Persons::of(&placement, units), self.is_whole);
        }
        // Two tables publish quasi-identifiers as they are.
        if self.spec.publish.is_none() {
            let axes: Vec<&Axis> = axes.iter().collect();
            // A row that is not published has lost everything.
            let lost = loss(rows, &classes, &axes) * classes.rows() as f64 + suppressed as f64;
            self.metrics.loss.set(lost / rows.len().max(1) as f64);
        }
        Ok(Formed { classes, cells: Cells::Covering })
    }

    fn seed(&self, purpose: Purpose) -> Seed {
        self.spec.secret.seed(purpose)
    }

    fn publishes_means(&self) -> bool {
        self.spec.ranges == Ranges::Mean
    }

    fn check_suppressed_rows(&self, rows: usize, suppressed: usize) -> Result<()> {
        match self.is_whole {
            true => check_suppressed_rows(self.spec, rows as u64, suppressed as u64),
            false => Ok(()),
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
            seed: &self.seed(Purpose::Starts),
            block_rows: self.block_rows(clustering),
        };
        self.group(table, |rows, job| Ok((cluster(rows, job, clustering, &options)?, suppressed)))
    }

    fn check_dropped(&self, dropped: usize, rows: usize) -> Result<()> {
        let limit = self.spec.suppression_limit();
        if self.is_whole && dropped as f64 / rows.max(1) as f64 > limit {
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

    /// What every class must satisfy.
    fn requirement(&self, table: &CodedTable) -> Result<Requirement> {
        let asked = Asked { spec: self.spec, levels: self.levels, populations: self.populations };
        let units = usize::from(self.spec.privacy_unit.is_some());
        let values: Vec<&ModelledValues> =
            table.modelled_values.iter().take(self.modelled - units).collect();
        let mut required = asked.of_values(&values)?;
        if units == 1 {
            let column = self.modelled - 1;
            required.models.extend(unit_models(self.spec, column));
        }
        Ok(required)
    }

    /// Breaks the links between groups of columns, bucket by bucket.
    fn slice(&self, table: &mut CodedTable, by: SliceBy) -> Result<Formed> {
        let bug = || execution_error(Error::bug("a slicing lost its options"));
        let asked = self.spec.slicing.as_ref().ok_or_else(bug)?;
        let requirement = self.requirement(table)?;
        let timer = self.metrics.partition_time.timer();
        let axes: Vec<Axis> = table.domains.iter().map(|domain| domain.axis.clone()).collect();
        let places = table.domains.iter().map(Domain::places).collect::<crate::Result<Vec<_>>>();
        let places = places.map_err(execution_error)?;
        // The sensitive column stands behind the quasi-identifiers.
        let (sensitive, axes) = axes.split_last().ok_or_else(bug)?;
        let job = Job {
            axes,
            requirement: &requirement,
            sensitive: &table.modelled,
            keys: &table.keys,
            cancel: self.cancel,
        };
        // Another secret for every table: who knows the values of one release must not undo another.
        let spec = self.spec.to_string();
        let written = table.domains.iter().flat_map(|domain| domain.written.iter().flatten());
        let part = self.part.map(|part| part.to_string());
        let purpose = [spec.as_str()].into_iter().chain(part.as_deref());
        let seed = self.seed(Purpose::Slicing).derive(purpose.chain(written));
        let options = slicing::Options {
            sensitive,
            positions: &places,
            l: self.spec.models.l.ok_or_else(bug)?,
            variant: self.spec.variant,
            max_columns: asked.max_columns,
            // Only a hierarchy that the user gave bounds the values of a bucket.
            nodes: !matches!(asked.sensitive_hierarchy, None | Some(HierarchySource::Automatic(_))),
            rare_below: asked.rare_below,
            has_kept: !self.spec.keep.is_empty(),
            seed: &seed,
        };
        let rows = &mut table.rows;
        let sliced = match by {
            SliceBy::Associations => {
                let asg = slicing::AsgOptions {
                    min_support: asked.min_support,
                    min_confidence: asked.min_confidence,
                    min_columns: asked.min_columns,
                    weights: &self.spec.weights,
                    block_rows: self.spec.block_rows.unwrap_or(slicing::DEFAULT_BLOCK_ROWS),
                    work: DEFAULT_WORK,
                };
                slicing::asg_ls(rows, &job, &options, &asg)
            }
            SliceBy::Correlation => slicing::slicing(rows, &job, &options, asked.columns),
        };
        let sliced = sliced.map_err(execution_error)?;
        timer.done();
        let _timer = self.metrics.verify_time.timer();
        let rows = &table.rows;
        let placement = Placement {
            id_at: &|at| rows.id_at(at),
            rows: rows.len(),
            classes: &sliced.buckets,
            suppressed: sliced.suppressed,
        };
        check_placement(&placement, &requirement, &table.modelled).map_err(execution_error)?;
        self.check_suppressed_rows(rows.len(), sliced.suppressed)?;
        let lost = cover_loss(rows, &sliced.buckets, axes, &sliced.covered);
        let lost = lost + sliced.suppressed as f64;
        self.metrics.loss.set(lost / rows.len().max(1) as f64);
        self.metrics.slicing(by, &sliced);
        let groups = ColumnGroups {
            labels: sliced.groups.iter().map(|groups| self.named_groups(groups)).collect(),
            of_class: sliced.groups_of,
        };
        let Sliced { buckets, covered, kept, .. } = sliced;
        Ok(Formed { classes: buckets, cells: Cells::Sliced { covered, kept, groups } })
    }

    /// The columns of a bucket that were permuted together: groups of quasi-identifiers, what is kept, and last the
    /// sensitive column with the quasi-identifiers that stayed beside it.
    fn named_groups(&self, groups: &[u64]) -> String {
        let names = |group: u64| {
            let positions: Vec<usize> = (0..64).filter(|at| group >> at & 1 == 1).collect();
            self.spec.column_names(&positions)
        };
        let apart = groups.iter().fold(0, |all, group| all | group);
        let beside = (0..self.spec.quasi_identifiers.len()).filter(|at| apart >> at & 1 == 0);
        let beside = self.spec.column_names(&beside.collect::<Vec<usize>>());
        let listed = |columns: &[Column]| {
            columns.iter().map(|column| column.name.as_str()).collect::<Vec<&str>>().join(", ")
        };
        let sensitive = match beside.is_empty() {
            true => listed(&self.spec.sensitive),
            false => format!("{beside}, {}", listed(&self.spec.sensitive)),
        };
        let kept = (!self.spec.keep.is_empty()).then(|| listed(&self.spec.keep));
        let groups = groups.iter().map(|group| names(*group)).chain(kept).chain([sensitive]);
        groups.collect::<Vec<String>>().join(" | ")
    }

    /// Satisfies the constraints by freezing rows, or without a search by whole columns.
    fn recode(&self, table: &mut CodedTable, search: Option<Search>) -> Result<Formed> {
        let timer = self.metrics.partition_time.timer();
        let CodedTable { rows, domains, keys, .. } = table;
        let trees = domains.iter().map(|domain| tree_of(&domain.axis));
        let trees = trees.collect::<crate::Result<Vec<&Tree>>>().map_err(execution_error)?;
        let job = classfly::Job {
            trees: &trees,
            constraints: &self.spec.constraints,
            variant: self.spec.variant,
            drop_suppressed: self.spec.suppress == Suppress::Rows,
            keys,
            seed: self.seed(Purpose::Suppressed),
            cancel: self.cancel,
        };
        let recoding = match search {
            Some(search) => classfly(rows, &job, search),
            None => {
                let most = self.spec.suppression_limit() * rows.len() as f64;
                datafly(rows, &job, Some(most as usize))
            }
        };
        let recoding = recoding.map_err(execution_error)?;
        timer.done();
        let _timer = self.metrics.verify_time.timer();
        check_constraints(rows, &job, &recoding).map_err(execution_error)?;
        self.check_suppressed(rows, &recoding)?;
        self.metrics.loss.set(node_loss(&recoding.nodes, &trees));
        self.metrics.precision(precision(&recoding.nodes, &trees));
        let published = into_classes(recoding, rows, &job).map_err(execution_error)?;
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
            let instead = match self.spec.suppress {
                Suppress::Rows => "or give coarser hierarchies",
                _ => "give coarser hierarchies, or leave such rows out with suppress => 'rows'",
            };
            return exec_err!(
                "{:.1} % of the cells would be suppressed ({}), more than suppression_limit = {limit} \
                 allows: raise it, lower the k of a constraint, {instead}",
                100.0 * share,
                counts.collect::<Vec<String>>().join(", ")
            );
        }
        Ok(())
    }
}

/// The models that bound the persons of a class, given the column of the privacy unit.
pub(super) fn unit_models(spec: &Spec, column: usize) -> impl Iterator<Item = Model> {
    let persons = Model::Distinct { column, at_least: spec.k, unit: true };
    let share = spec.unit_share.map(|at_most| Model::UnitShare { column, at_most });
    std::iter::once(persons).chain(share)
}

/// Errors if more rows would be suppressed than the limit allows.
pub(super) fn check_suppressed_rows(spec: &Spec, rows: u64, suppressed: u64) -> Result<()> {
    let limit = spec.suppression_limit();
    let share = suppressed as f64 / rows.max(1) as f64;
    if share > limit {
        return exec_err!(
            "{suppressed} of {rows} rows ({:.1} %) would be suppressed, more than \
             suppression_limit = {limit} allows: raise it, relax k or the models, or \
             anonymize a larger input",
            100.0 * share
        );
    }
    Ok(())
}

fn tree_of(axis: &Axis) -> crate::Result<&Tree> {
    match &axis.shape {
        Shape::Tree(tree) => Ok(tree),
        Shape::Line(_) | Shape::Set => Err(Error::bug("a quasi-identifier has no hierarchy")),
    }
}
