//! From codes to verified classes.

use std::sync::Arc;

use datafusion::common::{Column, Result, exec_err};

use super::metrics::ReleaseMetrics;
use super::requirement::RequirementBuilder;
use crate::columnar::{
    Cells, CodedTable, Coding, ColumnGroups, Domain, ListedLevels, Ranges, changed_input,
};
use crate::engine::options::{HierarchySource, Spec, Suppress};
use crate::engine::plan::split_unit;
use crate::error::Error;
use crate::hierarchy::Axis;
use crate::measure::{cover_loss, loss, node_loss, precision};
use crate::method::alike::{self, PublishedAs, shuffle_alike};
use crate::method::classfly::{self, Recoding, check_constraints, into_classes};
use crate::method::slicing::{self, Sliced};
use crate::method::{Family, Job, MethodOption, Settings, TableShape, Unverified};
use crate::model::{
    Cancel, Classes, Model, Persons, Placement, Purpose, Requirement, RowTable, Seed,
    check_placement,
};

/// Forms the classes of a table and verifies them before anything leaves.
///
/// 1. The requirement is built from the options and the values of the modelled columns.
/// 2. The method reorders the rows and returns classes, recoded rows or slices.
/// 3. Classes that publish the same are shuffled, so that their order tells nothing.
/// 4. The result is checked against the requirement independently of the method, by the rules of its family;
///    a method that broke its promise is an error, not a release.
pub(super) struct ClassBuilder<'a> {
    pub(super) spec: &'a Spec,
    /// Levels of the sensitive values, where alpha is graded.
    pub(super) levels: Option<&'a ListedLevels>,
    /// Which part of the whole table this one is, `None` if it is the whole table.
    pub(super) part: Option<&'a Part>,
    pub(super) metrics: &'a ReleaseMetrics,
    pub(super) cancel: &'a Cancel,
}

/// A part of a table that is anonymized independently of the others.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) number: u32,
    /// Codes of every quasi-identifier in the whole table.
    pub(super) codes: Vec<u32>,
    /// By modelled column, how often each code occurs in the whole table, where models compare with that.
    pub(super) populations: Vec<Option<Arc<[u64]>>>,
}

impl Part {
    /// Errors if the part has values that were not in the whole table.
    pub(super) fn check(&self, coding: &Coding) -> crate::Result<()> {
        let mut modelled = coding.modelled_codes().zip(&self.populations);
        let same = coding.axes().map(|axis| axis.codes).eq(self.codes.iter().copied())
            && modelled.all(|(codes, population)| {
                population.as_ref().is_none_or(|of| of.len() == codes as usize)
            });
        if same { Ok(()) } else { Err(changed_input()) }
    }
}

/// Classes that passed every check. The rows of the table are in their order.
pub(super) struct VerifiedClasses {
    pub(super) classes: Classes,
    pub(super) cells: Cells,
}

/// What slicing needs to know about the columns of its table.
struct Linked {
    /// By column, the place of every code between 0 and 1 where it is a number or a date.
    places: Vec<Option<Vec<f64>>>,
    seed: Seed,
}

impl ClassBuilder<'_> {
    /// Bytes that forming classes and checking them takes beside the table of `rows` rows of
    /// `row_bytes` bytes.
    pub(super) fn work_bytes<'x>(
        &self,
        axes: impl Iterator<Item = &'x Axis>,
        rows: usize,
        row_bytes: usize,
        threads: usize,
    ) -> usize {
        let k = self.spec.k.max(1) as usize;
        // Whether each row was seen, and where each class ends, twice while they are put together.
        let persons =
            if self.spec.counted_unit().is_some() { Persons::work_bytes(rows) } else { 0 };
        let check = rows / 8 + 8 * (rows / k) + persons;
        let alike = match self.spec.method.family() {
            Family::Classes => alike::work_bytes(rows, rows / k),
            Family::Constraints | Family::TwoTables | Family::Slices => 0,
        };
        // Cutting counts the values of every column, on every thread.
        let codes: Vec<u32> = axes.map(|axis| axis.codes).collect();
        let counted = |codes: &u32| (*codes as usize).min(rows.saturating_mul(8));
        let counters = threads * size_of::<u32>() * codes.iter().map(counted).sum::<usize>();
        let shape = TableShape { rows, row_bytes, codes: &codes, k, threads };
        check + alike + counters + self.spec.method.memory(&shape, &self.settings(None))
    }

    /// Puts the rows into classes and verifies them.
    pub(super) fn build(&self, table: &mut CodedTable) -> Result<VerifiedClasses> {
        let requirement = self.requirement(table)?;
        let timer = self.metrics.partition_time.timer();
        let all_axes: Vec<Axis> = table.domains.iter().map(|domain| domain.axis.clone()).collect();
        let linked = self.linked(table)?;
        // The sensitive column stands behind the quasi-identifiers where its links to them count.
        let (axes, slicing) = match (&linked, all_axes.split_last()) {
            (Some(linked), Some((sensitive, axes))) => (axes, self.slicing(linked, sensitive)),
            _ => (&all_axes[..], None),
        };
        let settings = self.settings(slicing);
        let job = Job {
            axes,
            requirement: &requirement,
            sensitive: &table.modelled,
            keys: &table.keys,
            cancel: self.cancel,
        };
        let rows = &mut table.rows;
        let unverified = self.spec.method.form(rows, &job, &settings)?;
        let unverified = self.shuffle(rows, &job, unverified)?;
        timer.done();
        let timer = self.metrics.verify_time.timer();
        let verified = match (self.spec.method.family(), unverified) {
            (Family::Classes | Family::TwoTables, Unverified::Classes { classes, suppressed }) => {
                self.verify(rows, &job, classes, suppressed)?
            }
            (Family::Constraints, Unverified::Recoded(recoding)) => {
                self.verify_recoding(rows, &job, &settings, recoding)?
            }
            (Family::Slices, Unverified::Sliced(sliced)) => {
                self.verify_slices(rows, &job, sliced)?
            }
            // A family decides how its releases are verified; the checks of another one would prove nothing.
            (_, _) => return Err(Error::bug("a method left its family").into()),
        };
        timer.done();
        let classes = &verified.classes;
        self.metrics.suppressed_rows.add(rows.len() - classes.rows());
        self.metrics.classes.set(classes.len());
        self.metrics.largest_class.set(classes.largest());
        Ok(verified)
    }

    /// Classes of persons who are grouped among themselves. `None` if they cannot meet the
    /// requirement.
    pub(super) fn newcomers(&self, rows: &mut RowTable, job: &Job) -> Result<Option<Classes>> {
        let timer = self.metrics.partition_time.timer();
        // How many may be left out is no question here: they wait.
        let settings = Settings { is_whole: false, ..self.settings(None) };
        let formed = self.spec.method.form(rows, job, &settings);
        timer.done();
        match formed {
            Ok(Unverified::Classes { classes, .. }) => Ok(Some(classes)),
            Ok(_) => Err(Error::bug("a method left its family").into()),
            Err(Error::TooFewRows { .. } | Error::Unsatisfiable { .. } | Error::NoClass { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn settings<'s>(&'s self, slicing: Option<slicing::Settings<'s>>) -> Settings<'s> {
        Settings {
            split: self.spec.split,
            variant: self.spec.variant,
            drop_suppressed: self.spec.suppress == Suppress::Rows,
            suppression_limit: self.spec.suppression_limit(),
            is_whole: self.part.is_none(),
            weights: &self.spec.weights,
            block_rows: self.spec.block_rows,
            constraints: &self.spec.constraints,
            slicing,
            secret: self.spec.secret,
        }
    }

    /// Classes that publish the same leave in an order that tells nothing. Two tables publish exact values, and
    /// their classes were numbered by the method.
    fn shuffle(
        &self,
        rows: &mut RowTable,
        job: &Job,
        unverified: Unverified,
    ) -> Result<Unverified> {
        match unverified {
            Unverified::Classes { classes, suppressed } if self.publishes_covers() => {
                let seed = self.spec.secret.seed(Purpose::AlikeClasses);
                let published =
                    PublishedAs { axes: job.axes, means: self.spec.ranges == Ranges::Mean };
                let classes = shuffle_alike(rows, &classes, published, job.keys, seed)?;
                Ok(Unverified::Classes { classes, suppressed })
            }
            other => Ok(other),
        }
    }

    fn publishes_covers(&self) -> bool {
        self.spec.method.family() == Family::Classes
    }

    /// Verifies classes under one requirement; the rows behind the last class are suppressed.
    fn verify(
        &self,
        rows: &RowTable,
        job: &Job,
        classes: Classes,
        suppressed: usize,
    ) -> Result<VerifiedClasses> {
        let placement = Placement {
            id_at: &|at| rows.id_at(at),
            rows: rows.len(),
            classes: &classes,
            suppressed,
        };
        self.check_placement(&placement, job)?;
        if let (_, Some(unit)) = split_unit(job.sensitive, self.spec.counted_unit().is_some()) {
            self.metrics.persons(Persons::of(&placement, unit), self.part.is_none());
        }
        if self.publishes_covers() {
            let axes: Vec<&Axis> = job.axes.iter().collect();
            // A row that is not published has lost everything.
            let lost = loss(rows, &classes, &axes) * classes.rows() as f64 + suppressed as f64;
            self.metrics.loss.set(lost / rows.len().max(1) as f64);
        }
        Ok(VerifiedClasses { classes, cells: Cells::Covering })
    }

    /// Every row is somewhere, every class satisfies the requirement, and few enough rows are left out.
    fn check_placement(&self, placement: &Placement, job: &Job) -> Result<()> {
        check_placement(placement, job.requirement, job.sensitive)?;
        match self.part {
            // The limit holds for all parts together.
            Some(_) => Ok(()),
            None => {
                check_suppressed_rows(self.spec, placement.rows as u64, placement.suppressed as u64)
            }
        }
    }

    /// What every class must satisfy.
    pub(super) fn requirement(&self, table: &CodedTable) -> Result<Requirement> {
        let populations = self.part.map(|part| part.populations.as_slice()).unwrap_or_default();
        let builder = RequirementBuilder { spec: self.spec, levels: self.levels, populations };
        let (sensitive, unit) =
            split_unit(&table.modelled_values, self.spec.counted_unit().is_some());
        let mut required = builder.build(&sensitive.iter().collect::<Vec<_>>())?;
        if unit.is_some() {
            required.models.extend(unit_models(self.spec, sensitive.len()));
        }
        Ok(required)
    }

    fn linked(&self, table: &CodedTable) -> crate::Result<Option<Linked>> {
        if self.spec.slicing.is_none() {
            return Ok(None);
        }
        let places = table.domains.iter().map(Domain::places).collect::<crate::Result<_>>()?;
        // A secret per table: the values of one release must not help to undo another.
        let spec = self.spec.to_string();
        let written = table.domains.iter().flat_map(|domain| domain.written.iter().flatten());
        let part = self.part.map(|part| part.number.to_string());
        let purpose = [spec.as_str()].into_iter().chain(part.as_deref());
        let seed = self.spec.secret.seed(Purpose::Slicing).derive(purpose.chain(written));
        Ok(Some(Linked { places, seed }))
    }

    fn slicing<'s>(
        &self,
        linked: &'s Linked,
        sensitive: &'s Axis,
    ) -> Option<slicing::Settings<'s>> {
        let asked = self.spec.slicing.as_ref()?;
        let options = slicing::Options {
            sensitive,
            positions: &linked.places,
            l: self.spec.models.l?,
            variant: self.spec.variant,
            max_columns: asked.max_columns,
            // Only a hierarchy that the user gave bounds the values of a bucket.
            nodes: !matches!(asked.sensitive_hierarchy, None | Some(HierarchySource::Automatic(_))),
            rare_below: asked.rare_below,
            has_kept: !self.spec.keep.is_empty(),
            seed: &linked.seed,
        };
        Some(slicing::Settings {
            options,
            columns: asked.columns,
            min_columns: asked.min_columns,
            min_support: asked.min_support,
            min_confidence: asked.min_confidence,
        })
    }

    /// Verifies buckets whose groups of columns were permuted independently.
    fn verify_slices(&self, rows: &RowTable, job: &Job, sliced: Sliced) -> Result<VerifiedClasses> {
        let placement = Placement {
            id_at: &|at| rows.id_at(at),
            rows: rows.len(),
            classes: &sliced.buckets,
            suppressed: sliced.suppressed,
        };
        self.check_placement(&placement, job)?;
        let lost = cover_loss(rows, &sliced.buckets, job.axes, &sliced.covered);
        let lost = lost + sliced.suppressed as f64;
        self.metrics.loss.set(lost / rows.len().max(1) as f64);
        self.metrics.slicing(self.spec.method.takes(MethodOption::MinSupport), &sliced);
        let groups = ColumnGroups {
            labels: sliced.groups.iter().map(|groups| self.named_groups(groups)).collect(),
            of_class: sliced.groups_of,
        };
        let Sliced { buckets, covered, kept, .. } = sliced;
        Ok(VerifiedClasses { classes: buckets, cells: Cells::Sliced { covered, kept, groups } })
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

    /// Verifies what is published of every row against the constraints.
    fn verify_recoding(
        &self,
        rows: &mut RowTable,
        job: &Job,
        settings: &Settings,
        recoding: Recoding,
    ) -> Result<VerifiedClasses> {
        let trees = classfly::trees(job.axes)?;
        let job = classfly::Job::new(&trees, job, settings);
        check_constraints(rows, &job, &recoding)?;
        self.check_suppressed(rows, &recoding)?;
        self.metrics.loss.set(node_loss(&recoding.nodes, &trees));
        self.metrics.precision(precision(&recoding.nodes, &trees));
        let published = into_classes(recoding, rows, &job)?;
        Ok(VerifiedClasses { classes: published.classes, cells: Cells::Nodes(published.nodes) })
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
