//! One night of a series: from tonight's rows, the state and the last release to verified cohorts.

use std::sync::Arc;

use datafusion::common::{Result, exec_err, internal_err};
use rayon::prelude::*;
use tokio::runtime::Handle;

use super::arrangement::{Arrangement, Published, Rows, published_classes};
use super::checks::verify_last;
use super::last::{Last, LastRead, RowsToKeep};
use super::members::State;
use super::newcomers::{CohortBuilder, NewCohorts};
use crate::columnar::{CodedTable, Coding, Cohorts, Domain, LastRows, ReleaseTable};
use crate::engine::exec::form::ClassBuilder;
use crate::engine::exec::memory::{Arranging, Emitting, OutputShape, ReleaseMemory};
use crate::engine::exec::metrics::SeriesFigures;
use crate::engine::exec::pipeline::{Release, Resolved, Source};
use crate::engine::exec::requirement::RequirementBuilder;
use crate::engine::options::{Newcomers, SeriesSpec};
use crate::hierarchy::Axis;
use crate::measure::lost_by;
use crate::model::series::{
    Attendance, Changes, Fate, Groups, Leavers, Member, Members, Presence, member,
};
use crate::model::{Classes, Purpose, Requirement, RowKeys, RowTable, Store, ties};

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
    memory: ReleaseMemory<Arranging>,
    table: CodedTable,
    arranged: Arranged,
    cohorts: Cohorts,
    /// The members of the new cohorts, in the order of their hashes.
    members: Vec<Member>,
}

/// Bytes of a class while it is decided on and until it has left.
const BYTES_OF_CLASS: usize = 64;

/// Tonight's rows, and what is known of their persons.
pub(super) struct Tonight {
    /// Each row at the position of its number.
    pub(super) table: CodedTable,
    pub(super) requirement: Requirement,
    /// The rows of newcomers.
    newcomers: Vec<u32>,
    /// By cohort, how many members are here.
    present: Vec<u32>,
    /// By cohort, their rows.
    rows: Groups,
    /// By cohort, whether its members are those that it was made of, and all of them are here.
    is_whole: Vec<bool>,
    /// By cohort, whether it is whole and its rows of tonight meet the requirement.
    holds: Vec<bool>,
}

impl Tonight {
    /// The table alone; everything else is dropped here.
    fn into_table(self) -> CodedTable {
        self.table
    }
}

/// Published rows and their classes.
struct Arranged {
    rows: RowTable,
    classes: Classes,
}

impl Night<'_> {
    /// 1. Rows are coded as in every release; each person is looked up in the state.
    /// 2. Cohorts that are whole and meet the requirement live; newcomers are grouped among themselves.
    /// 3. The last release is read and verified, and rows that may be published again, or lend their values to a cohort
    ///    that fails the requirement, are kept.
    /// 4. All classes are verified: rows and requirement as in every release, and that the persons of every class
    ///    are those whose hash its id is.
    pub(super) fn form(
        &self,
        coding: Coding,
        memory: ReleaseMemory<Arranging>,
    ) -> Result<Verified> {
        let release = self.release;
        let builder = ClassBuilder {
            spec: &release.spec,
            levels: self.resolved.levels.as_ref(),
            part: None,
            metrics: &release.metrics,
            cancel: &release.cancel,
        };
        let tonight = self.tonight(coding, &memory, &builder)?;
        let new = self.new_cohorts(&tonight, &memory, &builder)?;
        let (memory, last) = self.read_last(memory, &tonight)?;
        let of_last = self.requirement_of_last(&builder, &last.rows)?;
        let last_rows = Groups::of(&last.rows.cohort_of, self.members().cohorts().len());
        release.cancel.check()?;
        let fates = self.fates(&tonight, &last, &last_rows, &of_last);
        let of_repeated = self.check_repeated(&fates, &last.rows, &last_rows, of_last.clone())?;
        let published = published_classes(self.members(), &fates, &new);
        let arrangement =
            Arrangement { published, tonight: &tonight.rows, new: &new, last: last_rows };
        self.check_not_the_last_night(&arrangement, &last.published)?;
        let timer = release.metrics.verify_time.timer();
        self.verify(&tonight, &arrangement)?;
        if self.keeps_values() {
            let is_live = |of: &Published| matches!(of.rows, Rows::Live(_));
            verify_last(&last.rows, &arrangement, &of_last, is_live)?;
        }
        let repeats = |of: &Published| matches!(of.rows, Rows::Kept(_) | Rows::Repeated(_));
        verify_last(&last.rows, &arrangement, &of_repeated, repeats)?;
        timer.done();
        self.count(&tonight, &last.published, &arrangement);
        release.cancel.check()?;
        let members = members_of(&tonight.table, &new);
        let arranged = self.arrange(&memory, &tonight.table, &arrangement)?;
        let cohorts = arrangement.cohorts(tonight.table.rows.len() as u32, last.rows)?;
        drop(arrangement);
        Ok(Verified { memory, table: tonight.into_table(), arranged, cohorts, members })
    }

    pub(super) fn members(&self) -> &Members {
        &self.state.members
    }

    /// Whether cohorts that live publish the values of the last release.
    pub(super) fn keeps_values(&self) -> bool {
        self.series.changes == Changes::Never
    }

    /// Codes the rows, looks up their persons, and finds out which cohorts could live.
    fn tonight(
        &self,
        coding: Coding,
        memory: &ReleaseMemory<Arranging>,
        builder: &ClassBuilder,
    ) -> Result<Tonight> {
        let (release, members) = (self.release, self.members());
        let rows = memory.rows();
        release.metrics.input_rows.add(rows);
        if u32::try_from(rows).is_err() {
            return exec_err!("{rows} rows are more than one operator takes (4294967295)");
        }
        memory.reserve_method(self.work_bytes(rows))?;
        let timer = release.metrics.encode_time.timer();
        let seed = release.spec.secret.seed(Purpose::Ties);
        let table = memory.fill_table(&release.layout, coding, seed)?;
        timer.done();
        let _timer = release.metrics.partition_time.timer();
        let attendance = Attendance::of(&table.persons, members, &release.cancel)?;
        memory.reserve_method(attendance.newcomer_bytes())?;
        let newcomers = attendance.newcomers(&table.persons);
        self.check_one_row_each(newcomers.repeated)?;
        self.check_keys(&attendance, newcomers.rows.len())?;
        let requirement = builder.requirement(&table)?;
        let rows = Groups::of(&attendance.cohort_of, members.cohorts().len());
        let present = members.cohorts().iter().zip(&attendance.present);
        let is_whole: Vec<bool> =
            present.map(|(of, present)| of.is_intact && *present == of.size).collect();
        let holds = rows.which_hold(&is_whole, &requirement, &table.modelled);
        release.cancel.check()?;
        let newcomers = newcomers.rows;
        Ok(Tonight {
            table,
            present: attendance.present,
            newcomers,
            rows,
            is_whole,
            holds,
            requirement,
        })
    }

    fn new_cohorts(
        &self,
        tonight: &Tonight,
        memory: &ReleaseMemory<Arranging>,
        builder: &ClassBuilder,
    ) -> Result<NewCohorts> {
        if self.series.newcomers == Newcomers::Wait {
            return Ok(NewCohorts::default());
        }
        let Tonight { table, newcomers: rows, requirement, .. } = tonight;
        let cohorts = CohortBuilder { builder, memory, table, rows, threads: self.release.threads };
        cohorts.group(requirement, self.members())
    }

    fn work_bytes(&self, rows: usize) -> usize {
        let cohorts = self.members().cohorts().len();
        let attendance = Attendance::work_bytes(rows, self.members());
        // Rows by cohort and in the order of the classes, and whether each was seen.
        let arranged = (2 * size_of::<u32>() + size_of::<bool>()) * rows + rows / 8;
        let classes = cohorts + rows / self.release.spec.k.max(1) as usize;
        ties::work_bytes(rows).max(attendance + arranged) + classes * BYTES_OF_CLASS
    }

    /// Which cohorts may publish rows of the last release tonight.
    fn may_repeat(&self, tonight: &Tonight) -> Vec<bool> {
        let may_repeat = |cohort: usize| match (tonight.is_whole[cohort], self.series.leavers) {
            (true, _) => self.keeps_values() || !tonight.holds[cohort],
            (false, leavers) => leavers == Leavers::Hold,
        };
        (0..tonight.is_whole.len()).map(may_repeat).collect()
    }

    fn fates(
        &self,
        tonight: &Tonight,
        last: &Last,
        last_rows: &Groups,
        of_last: &Requirement,
    ) -> Vec<Fate> {
        let of_last = self
            .keeps_values()
            .then(|| last_rows.which_hold(&tonight.is_whole, of_last, &last.rows.modelled));
        let holds = of_last.as_ref().unwrap_or(&tonight.holds);
        let fate = |cohort: usize| {
            let presence = Presence {
                is_whole: tonight.is_whole[cohort],
                holds: holds[cohort],
                was_published: last.published.get(cohort).copied().unwrap_or(false),
            };
            Fate::of(presence, self.series.leavers)
        };
        (0..holds.len()).map(fate).collect()
    }

    /// Reads the last release into the same memory.
    fn read_last(
        &self,
        memory: ReleaseMemory<Arranging>,
        tonight: &Tonight,
    ) -> Result<(ReleaseMemory<Arranging>, Last)> {
        let keep = self.may_repeat(tonight);
        let wanted = RowsToKeep { members: Arc::clone(&self.state.members), keep };
        // Its rows by cohort, and while they are verified in the order of the classes, and whether each was seen.
        let row_bytes = 2 * size_of::<u32>() + size_of::<bool>();
        memory.reserve_method(wanted.rows() * row_bytes + wanted.rows() / 8)?;
        let memory = Arc::new(memory);
        let last = LastRead::read(self.release, self.source, self.series, &memory, wanted);
        let last = self.handle.block_on(last)?;
        let Some(memory) = Arc::into_inner(memory) else {
            return internal_err!("a task still reads after it has ended");
        };
        let last = last.put_together(&memory)?;
        Ok((memory, last))
    }

    /// What the values of the last release must satisfy where they are published again with tonight's ranges. Models
    /// that compare with the whole table compare with all of them.
    fn requirement_of_last(&self, builder: &ClassBuilder, last: &LastRows) -> Result<Requirement> {
        let spec = &self.release.spec;
        if last.modelled_values.len() != self.release.layout.modelled.len() {
            return Ok(Requirement::k(spec.k));
        }
        let builder = RequirementBuilder { spec, levels: builder.levels, populations: &[] };
        builder.build(&last.modelled_values.iter().collect::<Vec<_>>())
    }

    fn count(&self, tonight: &Tonight, was_published: &[bool], arrangement: &Arrangement) {
        let cohorts = self.members().cohorts().iter().zip(&tonight.present);
        let known = cohorts.zip(was_published).filter(|(_, published)| **published);
        let known = known.map(|((of, present), _)| (u64::from(of.size), u64::from(*present)));
        let (persons_known, present) =
            known.fold((0, 0), |(all, here), (size, present)| (all + size, here + present));
        let newcomers = tonight.newcomers.len() as u64;
        let mut figures = SeriesFigures {
            persons_known,
            persons_new: newcomers,
            persons_gone: persons_known - present,
            persons_waiting: newcomers,
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
                // How many fail the requirement is nobody's business: they count as ones that live.
                Rows::Live(_) | Rows::Kept(_) | Rows::New(_) => {
                    figures.cohorts_live += 1;
                    own += rows;
                }
            }
            if let Rows::New(_) = of.rows {
                figures.persons_waiting -= rows as u64;
            }
        }
        let metrics = &self.release.metrics;
        metrics.series(&figures);
        metrics.suppressed_rows.add(tonight.table.rows.len() - own);
        metrics.classes.set(arrangement.published.len());
        metrics.largest_class.set(largest);
    }

    /// The rows that are published, in the order in which their classes leave.
    fn arrange(
        &self,
        memory: &ReleaseMemory<Arranging>,
        table: &CodedTable,
        arrangement: &Arrangement,
    ) -> Result<Arranged> {
        let tonight = table.rows.len();
        let repeated: usize =
            (0..arrangement.last.len()).map(|of| arrangement.last.rows(of).len()).sum();
        if u32::try_from(tonight + repeated).is_err() {
            return exec_err!(
                "{tonight} rows and {repeated} of the last release are more than one operator takes (4294967295)"
            );
        }
        let sizes: Vec<u32> =
            arrangement.published.iter().map(|of| arrangement.size(of) as u32).collect();
        let classes = Classes::from_sizes(&sizes)?;
        let file = memory.place(classes.rows() * table.rows.bytes_of_row(), "codes")?;
        let mut rows = table.rows.zeroed_like_in(classes.rows(), file)?;
        let sources = &mut arrangement.row_sources(tonight as u32, self.keeps_values());
        table.rows.copy_rows(&mut rows, sources)?;
        let axes: Vec<&Axis> = table.domains.iter().map(|domain| &domain.axis).collect();
        let is_own = |class: usize| !matches!(arrangement.published[class].rows, Rows::Repeated(_));
        let lost = lost_by(&rows, &classes, &axes, &is_own);
        let own = (0..classes.len()).filter(|of| is_own(*of)).map(|of| classes.range(of).len());
        self.release.metrics.loss.set(lost / own.sum::<usize>().max(1) as f64);
        Ok(Arranged { rows, classes })
    }
}

impl Verified {
    /// The table of published rows, ready to leave, and the members of new cohorts. The state is no longer needed.
    pub(super) fn ready(
        self,
        release: &Release,
    ) -> Result<(Arc<ReleaseMemory<Emitting>>, Vec<Member>)> {
        let Self { memory, table, arranged: Arranged { rows, classes }, cohorts, members } = self;
        let tonight = table.rows.len();
        let (domains, keys) = domains_and_keys(table);
        // The others of tonight's codes, values and persons are gone now.
        let of_keys = size_of::<u64>() * (2 * tonight + cohorts.ties.len());
        memory.shrink_table(rows.bytes() + of_keys)?;
        memory.shrink_method(classes.len() * BYTES_OF_CLASS)?;
        let table = CodedTable {
            rows,
            domains,
            keys,
            modelled: Vec::new(),
            modelled_values: Vec::new(),
            persons: Store::default(),
        };
        let table = Arc::new(ReleaseTable::of_series(table, classes, cohorts));
        let shape = OutputShape {
            batch_rows: release.context.session_config().batch_size(),
            threads: release.threads,
            streams: release.streams,
            quasi_identifiers: release.layout.quasi_identifiers.len(),
        };
        Ok((memory.prepare(table, &shape)?, members))
    }
}

/// What of tonight's table is still needed; the rest is dropped here.
fn domains_and_keys(table: CodedTable) -> (Arc<[Domain]>, RowKeys) {
    let CodedTable { domains, keys, .. } = table;
    (domains, keys)
}

/// The members of the new cohorts, in the order of their hashes.
fn members_of(table: &CodedTable, new: &NewCohorts) -> Vec<Member> {
    let of_cohort = |(cohort, id): (usize, &u64)| {
        let person = |row: &u32| table.persons[*row as usize];
        let of_person = |person: u128| member(person, *id);
        new.rows.rows(cohort).iter().map(person).map(of_person).collect::<Vec<Member>>()
    };
    let mut members: Vec<Member> = new.ids.iter().enumerate().flat_map(of_cohort).collect();
    members.par_sort_unstable();
    members
}
