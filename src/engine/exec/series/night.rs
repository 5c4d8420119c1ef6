//! One night of a series: from tonight's rows, the state and the last release to verified cohorts.

use std::sync::Arc;

use datafusion::common::{Result, exec_err, internal_err};
use rayon::prelude::*;
use tokio::runtime::Handle;

use super::last::{Last, Wanted};
use super::members::State;
use super::newcomers::{NewCohorts, Newcomers};
use crate::columnar::{CodedTable, Coding, Cohorts, LastRows, ReleaseTable};
use crate::engine::exec::form::ClassBuilder;
use crate::engine::exec::memory::{Arranging, Emitting, OutputShape, ReleaseMemory};
use crate::engine::exec::metrics::SeriesFigures;
use crate::engine::exec::pipeline::{Release, Resolved, Source};
use crate::engine::exec::requirement::RequirementBuilder;
use crate::engine::options::{Newcomers as WhatNewcomersDo, SeriesSpec};
use crate::error::Error;
use crate::hierarchy::Axis;
use crate::measure::lost_by;
use crate::model::series::{
    Attendance, Changes, Fate, Groups, Leavers, Member, Members, Presence, cohort_id,
};
use crate::model::{
    Classes, Placement, Purpose, Requirement, Seed, Store, check_placement, ties,
};

/// What one night works from.
pub(super) struct Night<'a> {
    pub(super) release: &'a Release,
    pub(super) source: &'a Source,
    pub(super) series: &'a SeriesSpec,
    pub(super) resolved: &'a Resolved,
    pub(super) state: &'a State,
    pub(super) handle: &'a Handle,
}

/// A verified night.
pub(super) struct Verified {
    pub(super) memory: Arc<ReleaseMemory<Emitting>>,
    /// The members of the new cohorts, in the order of their hashes.
    pub(super) members: Vec<Member>,
}

/// A class that is published.
#[derive(Clone, Copy)]
struct Published {
    id: u64,
    rows: Rows,
}

/// Where the codes of a published row are, and the number of its other values.
type Move = (Option<u32>, u32);

/// Where the rows of a class come from. Cohorts are positions in the state, or among the new ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Live(usize),
    /// Tonight's quasi-identifiers with the values of the last release.
    Kept(usize),
    New(usize),
    Repeated(usize),
}

/// All classes, in the order of their ids: an order that tells nothing, because ids are keyed hashes.
struct Arrangement<'a> {
    published: Vec<Published>,
    tonight: &'a Groups,
    new: &'a NewCohorts,
    last: Groups,
}

impl Night<'_> {
    /// 1. Rows are coded as in every release; each person is looked up in the state.
    /// 2. Whole cohorts that meet the requirement live; newcomers are grouped among themselves.
    /// 3. The last release is read and verified, and rows of cohorts that do not live are kept.
    /// 4. All classes are verified: rows and requirement as in every release, and that the persons of every class
    ///    are those whose hash its id is.
    pub(super) fn form(
        &self,
        coding: Coding,
        memory: ReleaseMemory<Arranging>,
    ) -> Result<Verified> {
        let (release, members) = (self.release, &*self.state.members);
        let rows = memory.rows();
        release.metrics.input_rows.add(rows);
        let builder = ClassBuilder {
            spec: &release.spec,
            levels: self.resolved.levels.as_ref(),
            part: None,
            metrics: &release.metrics,
            cancel: &release.cancel,
        };
        memory.reserve_method(self.work_bytes(rows))?;
        let timer = release.metrics.encode_time.timer();
        let seed = release.spec.secret.seed(Purpose::Ties);
        let table = memory.fill_table(&release.layout, coding, seed)?;
        timer.done();
        let timer = release.metrics.partition_time.timer();
        let attendance = Attendance::of(&table.persons, members, &release.cancel)?;
        self.check_persons(&attendance)?;
        let requirement = builder.requirement(&table)?;
        let tonight = Groups::of(&attendance.cohort_of, members.cohorts().len());
        let is_whole = |cohort: usize| {
            let of = members.cohorts()[cohort];
            of.is_intact && attendance.present[cohort] == of.size
        };
        let mut holds = tonight.which_hold(&is_whole, &requirement, &table.modelled);
        timer.done();
        let new = match self.series.newcomers {
            WhatNewcomersDo::Wait => NewCohorts::default(),
            WhatNewcomersDo::Group => {
                let (rows, threads) = (&attendance.newcomers, release.threads);
                let newcomers =
                    Newcomers { builder: &builder, memory: &memory, table: &table, rows, threads };
                newcomers.group(&requirement, members)?
            }
        };
        let keep = |cohort: usize| match (is_whole(cohort), self.series) {
            (_, SeriesSpec { changes: Changes::Never, leavers: Leavers::Hold, .. }) => true,
            (true, SeriesSpec { changes: Changes::Never, .. }) => true,
            (true, _) => !holds[cohort],
            (false, SeriesSpec { leavers, .. }) => *leavers == Leavers::Hold,
        };
        let keep = (0..members.cohorts().len()).map(keep).collect();
        let (memory, last) = self.read_last(memory, keep)?;
        let kept = Groups::of(&last.rows.cohort_of, members.cohorts().len());
        let of_last = self.requirement_of_last(&builder, &last.rows)?;
        if self.series.changes == Changes::Never {
            holds = kept.which_hold(&is_whole, &of_last, &last.rows.modelled);
        }
        let fates = members.cohorts().iter().enumerate().map(|(cohort, _)| {
            let (is_whole, holds) = (is_whole(cohort), holds[cohort]);
            let was_published = last.published.get(cohort).copied().unwrap_or(false);
            Fate::of(Presence { is_whole, holds, was_published }, self.series.leavers)
        });
        let fates: Vec<Fate> = fates.collect();
        let published = published(members, &fates, &new);
        let arrangement = Arrangement { published, tonight: &tonight, new: &new, last: kept };
        let timer = release.metrics.verify_time.timer();
        self.verify(&table, &arrangement, &requirement)?;
        if self.series.changes == Changes::Never {
            self.verify_last(&last.rows, &arrangement, &of_last)?;
        }
        timer.done();
        self.count(&attendance, &last.published, &arrangement);
        let new_members = self.members_of(&table, &new);
        let memory = self.emitting(memory, table, arrangement, last.rows)?;
        Ok(Verified { memory, members: new_members })
    }

    fn work_bytes(&self, rows: usize) -> usize {
        let members = &*self.state.members;
        let cohorts = members.cohorts().len();
        let attendance = Attendance::work_bytes(rows, members);
        // Rows by cohort, in the order of the classes, and whether each was seen; the table of published rows.
        let arranged = 2 * size_of::<u32>() * rows + rows / 8;
        let classes = cohorts + rows / self.release.spec.k.max(1) as usize;
        let of_classes = classes * 8 * size_of::<u64>();
        ties::work_bytes(rows).max(attendance) + attendance + arranged + of_classes
    }

    fn check_persons(&self, attendance: &Attendance) -> Result<()> {
        let again = attendance.repeated;
        match &self.release.spec.privacy_unit {
            Some(unit) if again > 0 => exec_err!(
                "privacy_unit '{}': {again} rows are not the only one of their person, and a series needs one row for \
                 each: aggregate the input to a row per person, or keep one of them",
                unit.name
            ),
            _ => Ok(()),
        }
    }

    /// Reads the last release into the same memory.
    fn read_last(
        &self,
        memory: ReleaseMemory<Arranging>,
        keep: Vec<bool>,
    ) -> Result<(ReleaseMemory<Arranging>, Last)> {
        let memory = Arc::new(memory);
        let wanted = Wanted { members: Arc::clone(&self.state.members), keep };
        let last = Last::read(self.release, self.source, self.series, &memory, wanted);
        let last = self.handle.block_on(last)?;
        match Arc::into_inner(memory) {
            Some(memory) => Ok((memory, last)),
            None => internal_err!("a task still reads after it has ended"),
        }
    }

    /// What the values of the last release must satisfy where they are published again with tonight's ranges. Models
    /// that compare with the whole table compare with all of them.
    fn requirement_of_last(
        &self,
        builder: &ClassBuilder,
        last: &LastRows,
    ) -> Result<Requirement> {
        let spec = &self.release.spec;
        if last.modelled_values.len() != self.release.layout.modelled.len() {
            return Ok(Requirement::k(spec.k));
        }
        let builder = RequirementBuilder { spec, levels: builder.levels, populations: &[] };
        builder.build(&last.modelled_values.iter().collect::<Vec<_>>())
    }

    /// Every row is in one class or not published, classes that publish tonight's values meet the requirement, and the
    /// persons of a class are those of its cohort.
    fn verify(
        &self,
        table: &CodedTable,
        arrangement: &Arrangement,
        requirement: &Requirement,
    ) -> Result<()> {
        let never = self.series.changes == Changes::Never;
        let is_checked = |of: &Published| match of.rows {
            // With changes => 'never' the values of live cohorts are those of the last release.
            Rows::Live(_) => !never,
            Rows::New(_) => true,
            Rows::Kept(_) | Rows::Repeated(_) => false,
        };
        let classes: Vec<&Published> =
            arrangement.published.iter().filter(|of| is_checked(of)).collect();
        let rows_of = |of: &Published| arrangement.tonight_rows(of);
        self.place(table.rows.len(), &classes, &rows_of, &|placement| {
            check_placement(placement, requirement, &table.modelled)
        })?;
        let seed = self.release.spec.secret.seed(Purpose::SeriesCohorts);
        let wrong = arrangement.published.par_iter().filter(|of| {
            !matches!(of.rows, Rows::Repeated(_))
                && !is_of(of.id, arrangement.tonight_rows(of), &table.persons, seed)
        });
        match wrong.count() {
            0 => Ok(()),
            wrong => Err(Error::bug(format!("{wrong} classes are not the cohort of their id")).into()),
        }
    }

    /// The same of classes that publish the values of the last release with tonight's ranges.
    fn verify_last(
        &self,
        last: &LastRows,
        arrangement: &Arrangement,
        requirement: &Requirement,
    ) -> Result<()> {
        let is_live = |of: &&Published| matches!(of.rows, Rows::Live(_));
        let classes: Vec<&Published> = arrangement.published.iter().filter(is_live).collect();
        let rows_of = |of: &Published| match of.rows {
            Rows::Live(cohort) => arrangement.last.rows(cohort),
            _ => &[],
        };
        self.place(last.cohort_of.len(), &classes, &rows_of, &|placement| {
            check_placement(placement, requirement, &last.modelled)
        })
    }

    /// Checks classes; all other rows are behind them.
    fn place<'r>(
        &self,
        rows: usize,
        classes: &[&Published],
        rows_of: &dyn Fn(&Published) -> &'r [u32],
        check: &dyn Fn(&Placement) -> crate::Result<()>,
    ) -> Result<()> {
        let mut order: Vec<u32> = Vec::with_capacity(rows);
        let mut sizes = Vec::with_capacity(classes.len());
        for class in classes {
            let rows = rows_of(class);
            order.extend(rows);
            sizes.push(rows.len() as u32);
        }
        let mut is_placed = vec![false; rows];
        for row in &order {
            match is_placed.get_mut(*row as usize) {
                Some(placed) => *placed = true,
                None => return internal_err!("a class has a row that is not there"),
            }
        }
        let others = is_placed.iter().zip(0u32..).filter(|(placed, _)| !**placed);
        order.extend(others.map(|(_, row)| row));
        let classes = Classes::from_sizes(&sizes)?;
        if order.len() != rows {
            return internal_err!("a row is in two classes");
        }
        let suppressed = rows - classes.rows();
        let id_at = |at: usize| order[at];
        Ok(check(&Placement { id_at: &id_at, rows, classes: &classes, suppressed })?)
    }

    fn count(&self, attendance: &Attendance, was_published: &[bool], arrangement: &Arrangement) {
        let cohorts = self.state.members.cohorts().iter().zip(&attendance.present);
        let known = cohorts.zip(was_published).filter(|(_, published)| **published);
        let known = known.map(|((of, present), _)| (u64::from(of.size), u64::from(*present)));
        let (persons_known, present) =
            known.fold((0, 0), |(all, here), (size, present)| (all + size, here + present));
        let new_rows: usize =
            (0..arrangement.new.rows.len()).map(|of| arrangement.new.rows.rows(of).len()).sum();
        let newcomers = attendance.newcomers.len();
        let mut figures = SeriesFigures {
            persons_known,
            persons_new: newcomers as u64,
            persons_gone: persons_known - present,
            persons_waiting: (newcomers - new_rows) as u64,
            ..SeriesFigures::default()
        };
        let (mut own, mut largest) = (0, 0);
        for of in &arrangement.published {
            let rows = arrangement.size(of);
            largest = largest.max(rows);
            match of.rows {
                Rows::Repeated(_) => {
                    figures.cohorts_held += 1;
                    figures.rows_held += rows as u64;
                }
                Rows::Live(_) | Rows::Kept(_) | Rows::New(_) => {
                    figures.cohorts_live += 1;
                    own += rows;
                }
            }
        }
        let metrics = &self.release.metrics;
        metrics.series(&figures);
        metrics.suppressed_rows.add(attendance.cohort_of.len() - own);
        metrics.classes.set(arrangement.published.len());
        metrics.largest_class.set(largest);
    }

    /// The members of the new cohorts, in the order of their hashes.
    fn members_of(&self, table: &CodedTable, new: &NewCohorts) -> Vec<Member> {
        let of_cohort = |(cohort, id): (usize, &u64)| {
            let person = |row: &u32| table.persons[*row as usize];
            let member = |person: u128| [(person >> 64) as u64, person as u64, *id];
            new.rows.rows(cohort).iter().map(person).map(member).collect::<Vec<Member>>()
        };
        let mut members: Vec<Member> =
            new.ids.iter().enumerate().flat_map(of_cohort).collect();
        members.par_sort_unstable();
        members
    }

    /// The table of published rows, ready to leave.
    fn emitting(
        &self,
        memory: ReleaseMemory<Arranging>,
        table: CodedTable,
        arrangement: Arrangement,
        last: LastRows,
    ) -> Result<Arc<ReleaseMemory<Emitting>>> {
        let tonight = table.rows.len();
        if u32::try_from(tonight + last.cohort_of.len()).is_err() {
            return exec_err!(
                "{tonight} rows and {} of the last release are more than one operator takes (4294967295)",
                last.cohort_of.len()
            );
        }
        let sizes: Vec<u32> =
            arrangement.published.iter().map(|of| arrangement.size(of) as u32).collect();
        let classes = Classes::from_sizes(&sizes)?;
        let row_bytes = match tonight {
            0 => size_of::<u64>(),
            rows => table.rows.bytes() / rows,
        };
        let file = memory.place(classes.rows() * row_bytes, "codes")?;
        let mut rows = table.rows.zeroed_like_in(classes.rows(), file)?;
        let first = tonight as u32;
        let is_never = self.series.changes == Changes::Never;
        table.rows.copy_rows(&mut rows, &mut arrangement.moves(first, is_never))?;
        let axes: Vec<&Axis> = table.domains.iter().map(|domain| &domain.axis).collect();
        let is_own = |class: usize| {
            !matches!(arrangement.published[class].rows, Rows::Repeated(_))
        };
        let lost = lost_by(&rows, &classes, &axes, &is_own);
        let own: usize = (0..classes.len()).filter(|of| is_own(*of)).map(|of| classes.range(of).len()).sum();
        self.release.metrics.loss.set(lost / own.max(1) as f64);
        let cohorts = arrangement.cohorts(first, last)?;
        let CodedTable { domains, keys, .. } = table;
        // The others of tonight's codes, values and persons are gone now.
        memory.shrink_table(rows.bytes() + 2 * size_of::<u64>() * tonight)?;
        let table = CodedTable {
            rows,
            domains,
            keys,
            modelled: Vec::new(),
            modelled_values: Vec::new(),
            persons: Store::default(),
        };
        memory.shrink_method(classes.len() * 8 * size_of::<u64>() + 8 * tonight)?;
        let table = Arc::new(ReleaseTable::of_series(table, classes, cohorts));
        let shape = OutputShape {
            batch_rows: self.release.context.session_config().batch_size(),
            threads: self.release.threads,
            streams: self.release.streams,
            quasi_identifiers: self.release.layout.quasi_identifiers.len(),
        };
        memory.prepare(table, &shape)
    }
}

fn published(members: &Members, fates: &[Fate], new: &NewCohorts) -> Vec<Published> {
    let known = members.cohorts().iter().zip(fates).enumerate();
    let known = known.filter_map(|(cohort, (of, fate))| {
        let rows = match fate {
            Fate::Live => Rows::Live(cohort),
            Fate::Kept => Rows::Kept(cohort),
            Fate::Held => Rows::Repeated(cohort),
            Fate::Withdrawn => return None,
        };
        Some(Published { id: of.id, rows })
    });
    let new = new.ids.iter().enumerate().map(|(at, id)| Published { id: *id, rows: Rows::New(at) });
    let mut published: Vec<Published> = known.chain(new).collect();
    published.par_sort_unstable_by_key(|of| of.id);
    published
}

/// Whether rows are those of the persons whose hash the id is.
fn is_of(id: u64, rows: &[u32], persons: &[u128], seed: Seed) -> bool {
    let mut persons: Vec<u128> = rows.iter().map(|row| persons[*row as usize]).collect();
    cohort_id(&mut persons, seed) == id
}

impl Arrangement<'_> {
    /// Tonight's rows of a class, none of one that repeats the last release.
    fn tonight_rows(&self, of: &Published) -> &[u32] {
        match of.rows {
            Rows::Live(cohort) | Rows::Kept(cohort) => self.tonight.rows(cohort),
            Rows::New(at) => self.new.rows.rows(at),
            Rows::Repeated(_) => &[],
        }
    }

    fn size(&self, of: &Published) -> usize {
        match of.rows {
            Rows::Repeated(cohort) => self.last.rows(cohort).len(),
            _ => self.tonight_rows(of).len(),
        }
    }

    /// For every published row where its codes are and which number its other values have. Rows of the last release are
    /// numbered from `first` on; with `is_never` live cohorts publish their values.
    fn moves<'s>(
        &'s self,
        first: u32,
        is_never: bool,
    ) -> impl Iterator<Item = Move> + 's {
        let of_last = move |cohort: usize| self.last.rows(cohort).iter().map(move |row| first + row);
        self.published.iter().flat_map(move |of| -> Box<dyn Iterator<Item = Move> + 's> {
            let codes = self.tonight_rows(of).iter();
            match of.rows {
                Rows::Repeated(cohort) => Box::new(of_last(cohort).map(|id| (None, id))),
                Rows::Kept(cohort) => {
                    Box::new(codes.zip(of_last(cohort)).map(|(row, id)| (Some(*row), id)))
                }
                Rows::Live(cohort) if is_never => {
                    Box::new(codes.zip(of_last(cohort)).map(|(row, id)| (Some(*row), id)))
                }
                _ => Box::new(codes.map(|row| (Some(*row), *row))),
            }
        })
    }

    fn cohorts(self, first_repeated: u32, last: LastRows) -> Result<Cohorts> {
        let LastRows { ties, tuples, tuple_of, .. } = last;
        let of = |published: &Published| match published.rows {
            Rows::Repeated(cohort) => {
                let tuple = tuple_of.get(cohort).copied().flatten();
                let missing = || Error::bug("a cohort of the last release was not kept");
                Ok((Some(tuple.ok_or_else(missing)?), true))
            }
            _ => Ok((None, false)),
        };
        let of_class = self.published.iter().map(of).collect::<crate::Result<Vec<_>>>()?;
        let (repeated, held) = of_class.into_iter().unzip();
        let ids = self.published.iter().map(|of| of.id).collect();
        Ok(Cohorts { ids, held, repeated, tuples, first_repeated, ties })
    }
}
