//! Between the passes: which leaves make a cell.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use futures::stream;

use super::{CellExec, Notes, as_stream};
use crate::columnar::{
    CellPlan, Kind, Layout, LeafCounts, ModelledCounts, ModelledValues, Survey, TableHeader,
    by_partition, pages_to_batch,
};
use crate::engine::exec::form::unit_models;
use crate::engine::exec::requirement::{RequirementBuilder, check_persons};
use crate::engine::operator::running;
use crate::engine::options::Spec;
use crate::engine::plan::split_unit;
use crate::model::{GlobalShares, SensitiveColumn, Tally};

/// Merges the counts of all partitions, and then the leaves that cannot be cells of their own.
pub(super) fn run(
    exec: CellExec,
    layout: Layout,
    partitions: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = exec.schema();
    let batches = async move {
        let notes = Notes::read(&exec.children[0], &context).await?;
        let (spec, sampled) = (Arc::clone(&exec.spec), exec.sampled());
        running(move || {
            let Notes { pages, memory: _held } = notes;
            let survey = Survey::of_pages(&pages, layout.quasi_identifiers.len(), sampled)?;
            let (leaves, counted) =
                (2 * survey.tree.leaves() as usize, counted_columns(&spec, &layout));
            let counts = LeafCounts::merge(&layout, &by_partition(pages), leaves, counted)?;
            check_persons(&spec, counts.nobody)?;
            let cell_of_leaf = LeafMerger::new(&spec, &survey, &counts, &layout)?.cells()?;
            let plan = plan(&spec, survey, &counts, cell_of_leaf, partitions)?;
            Ok(pages_to_batch(&plan.to_pages()?)?)
        })
        .await
    };
    Ok(as_stream(schema, stream::once(batches)))
}

/// How many of the modelled columns have their values counted: all but the privacy unit, and that one too if
/// `unit_share` bounds it.
pub(super) fn counted_columns(spec: &Spec, layout: &Layout) -> usize {
    let (sensitive, _) = split_unit(&layout.modelled, spec.privacy_unit.is_some());
    sensitive.len() + usize::from(spec.unit_share.is_some())
}

/// Merges neighbouring leaves until each cell satisfies the requirement by itself.
struct LeafMerger<'a> {
    spec: &'a Spec,
    survey: &'a Survey,
    counts: &'a LeafCounts,
    columns: Vec<SensitiveColumn>,
}

impl<'a> LeafMerger<'a> {
    fn new(
        spec: &'a Spec,
        survey: &'a Survey,
        counts: &'a LeafCounts,
        layout: &Layout,
    ) -> Result<Self> {
        let column = |(at, of): (&usize, &ModelledCounts)| {
            let field = layout.schema.field(*at);
            let kind = Kind::of(field.data_type(), field.name());
            SensitiveColumn {
                name: field.name().clone(),
                codes: Vec::new().into(),
                cardinality: of.codes() as u32,
                ordered: kind.is_ok_and(Kind::has_ranges),
            }
        };
        let columns = layout.modelled.iter().zip(&counts.modelled).map(column).collect();
        Ok(Self { spec, survey, counts, columns })
    }

    /// The cell of every leaf.
    fn cells(&self) -> Result<Vec<u32>> {
        let populations: Vec<Option<Arc<[u64]>>> =
            self.counts.modelled.iter().map(|of| Some(of.population().into())).collect();
        let levels = self.survey.levels.as_ref();
        let builder = RequirementBuilder { spec: self.spec, levels, populations: &populations };
        let (sensitive, unit) = split_unit(&self.counts.modelled, self.spec.unit_share.is_some());
        let values: Vec<&ModelledValues> = sensitive.iter().map(|of| &of.values).collect();
        let mut requirement = builder.build(&values)?;
        if unit.is_some() {
            requirement.models.extend(unit_models(self.spec, sensitive.len()));
        }
        let global = GlobalShares::new(&requirement, &self.columns);
        let mut tally = Tally::new(&requirement, &self.columns, &global);
        let k = u64::from(self.spec.k);
        // From 2k² rows on, rounded partition makes no class of more than k + 1, also as its paper prints it.
        let least = k.saturating_mul(k).saturating_mul(2).max(1);
        Ok(self.survey.tree.cells(&mut |leaves: Range<u32>| {
            let leaves = leaves.start as usize..leaves.end as usize;
            let rows: u64 = self.counts.rows[leaves.clone()].iter().sum();
            if rows < least || !self.has_persons(leaves.clone()) {
                return false;
            }
            tally.clear();
            tally.add_counted(rows, &self.modelled(leaves));
            tally.holds()
        }))
    }

    fn has_persons(&self, leaves: Range<usize>) -> bool {
        if self.spec.privacy_unit.is_none() {
            return true;
        }
        let persons: BTreeSet<u64> =
            self.counts.persons[leaves].iter().flatten().copied().collect();
        persons.len() >= self.spec.k as usize
    }

    /// By modelled column, codes and rows of some leaves.
    fn modelled(&self, leaves: Range<usize>) -> Vec<Vec<(u32, u64)>> {
        let of_column = |of: &ModelledCounts| {
            let mut all: Vec<(u32, u64)> =
                of.by_leaf[leaves.clone()].iter().flatten().copied().collect();
            all.sort_unstable();
            let sum = |codes: &[(u32, u64)]| {
                (codes[0].0, codes.iter().map(|(_, rows)| rows).sum::<u64>())
            };
            all.chunk_by(|a, b| a.0 == b.0).map(sum).collect()
        };
        self.counts.modelled.iter().map(of_column).collect()
    }
}

/// The plan of the cells: their leaves, rows and exchange keys.
fn plan(
    spec: &Spec,
    survey: Survey,
    counts: &LeafCounts,
    cell_of_leaf: Vec<u32>,
    partitions: usize,
) -> Result<CellPlan> {
    let leaves = cell_of_leaf.len();
    let cells = cell_of_leaf.iter().max().map_or(1, |last| *last as usize + 1);
    let mut rows = vec![0u64; cells];
    for (leaf, of_leaf) in counts.rows.iter().enumerate() {
        rows[cell_of_leaf[leaf % leaves] as usize] += of_leaf;
    }
    if let Some(rows) = rows.iter().find(|rows| u32::try_from(**rows).is_err()) {
        return exec_err!(
            "a cell of {rows} rows is more than one operator takes (4294967295): SET anonymize.cells to a \
             larger number"
        );
    }
    let population = |of: &ModelledCounts| {
        // Only t compares with the whole table.
        spec.models.t.map(|_| TableHeader::population(of)).transpose()
    };
    // Nothing is compared with the persons of the whole table.
    let (sensitive, _) = split_unit(&counts.modelled, spec.unit_share.is_some());
    let populations = sensitive.iter().map(population);
    let populations = populations.collect::<crate::Result<Vec<_>>>()?;
    let header = TableHeader {
        values: survey.values,
        populations,
        rows: rows.iter().sum(),
        cells: cells as u64,
    };
    let keys = keys(&rows, partitions)?;
    Ok(CellPlan { tree: survey.tree, cell_of_leaf, keys, rows, header })
}

/// Exchange keys that spread the cells evenly: from the largest on, each goes to the partition with the fewest rows.
fn keys(rows: &[u64], partitions: usize) -> Result<Vec<u32>> {
    let of_partition = partition_keys(partitions)?;
    let mut by_size: Vec<usize> = (0..rows.len()).collect();
    by_size.sort_by_key(|cell| (std::cmp::Reverse(rows[*cell]), *cell));
    let mut load = vec![0u64; partitions];
    let mut keys = vec![0; rows.len()];
    for cell in by_size {
        let least = load.iter().enumerate().min_by_key(|(_, load)| **load).map_or(0, |(at, _)| at);
        load[least] += rows[cell].max(1);
        keys[cell] = of_partition[least];
    }
    Ok(keys)
}

/// A number for every partition that DataFusion's hash exchange sends there. Should another one hash
/// otherwise, rows of a cell still stay together.
fn partition_keys(partitions: usize) -> Result<Vec<u32>> {
    let field = Field::new("key", DataType::UInt32, false);
    let schema = Arc::new(Schema::new(vec![field]));
    let candidates: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..64 * partitions as u32));
    let batch = RecordBatch::try_new(schema, vec![candidates])?;
    let mut keys = vec![0; partitions];
    let column = Arc::new(Column::new("key", 0));
    let mut partitioner =
        BatchPartitioner::new_hash_partitioner(vec![column], partitions, Time::default())?;
    partitioner.partition(batch, |partition, part| {
        use datafusion::arrow::array::AsArray;
        use datafusion::arrow::datatypes::UInt32Type;
        let of_partition = part.column(0).as_primitive::<UInt32Type>();
        if !of_partition.is_empty() {
            keys[partition] = of_partition.value(0);
        }
        Ok(())
    })?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_spread_over_all_partitions() -> Result<()> {
        let keys = keys(&[10, 10, 10, 10, 5, 5, 5, 5], 4)?;
        let of_partition = partition_keys(4)?;
        let load = |key: &u32| {
            let cells = keys.iter().zip([10, 10, 10, 10, 5, 5, 5, 5]);
            cells.filter(|(of_cell, _)| *of_cell == key).map(|(_, rows)| rows).sum::<u64>()
        };
        assert_eq!(of_partition.iter().map(load).collect::<Vec<u64>>(), [15, 15, 15, 15]);
        Ok(())
    }
}
