//! What becomes of a statement that a client of a cluster sends.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Explain, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion_anonymize::{check_may_be_written, holds_release};
use futures::future::BoxFuture;

use crate::copy::{QueryRows, write_on_client};
use crate::job::JobExec;

/// The planner of a client: what the cluster runs, what the client writes itself, and what neither can do.
#[derive(Debug)]
pub(crate) struct ClientPlanner {
    cluster: Arc<dyn QueryPlanner + Send + Sync>,
}

impl ClientPlanner {
    pub(crate) fn new(cluster: Arc<dyn QueryPlanner + Send + Sync>) -> Self {
        Self { cluster }
    }

    async fn on_cluster(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(JobExec::watch(self.cluster.create_physical_plan(plan, session).await?))
    }

    /// The plan of a release that would be written: that of its query, and a line about the writing.
    async fn explained(
        &self,
        explain: &Explain,
        copy: &CopyTo,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let of_query = Explain { plan: Arc::clone(&copy.input), ..explain.clone() };
        let rows = self.on_cluster(&LogicalPlan::Explain(of_query), session).await?;
        let writing = format!(
            "CopyTo: format={} output_url={}, written by the client when the query below has ended on the cluster",
            copy.file_type.get_ext(),
            copy.output_url
        );
        let columns = ["client_plan".to_owned(), writing]
            .map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
        let writing = RecordBatch::try_new(rows.schema(), columns.to_vec())?;
        let schema = rows.schema();
        let lines = QueryRows { schema: Arc::clone(&schema), first: Some(writing), query: rows };
        let exec =
            StreamingTableExec::try_new(schema, vec![Arc::new(lines)], None, [], false, None)?;
        Ok(Arc::new(exec))
    }

    fn plan_statement<'a>(
        &'a self,
        plan: &'a LogicalPlan,
        session: &'a dyn Session,
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            check_tables(plan)?;
            if !holds_release(plan)? {
                return self.on_cluster(plan, session).await;
            }
            match plan {
                LogicalPlan::Copy(copy) => {
                    check_may_be_written(plan, session.config_options())?;
                    let made = self.on_cluster(&copy.input, session).await?;
                    write_on_client(copy, made, session).await
                }
                LogicalPlan::Explain(explain) => match explain.plan.as_ref() {
                    LogicalPlan::Copy(copy) => self.explained(explain, copy, session).await,
                    written => {
                        check_not_inserted(written)?;
                        self.on_cluster(plan, session).await
                    }
                },
                LogicalPlan::Analyze(analyze) => {
                    if matches!(analyze.input.as_ref(), LogicalPlan::Copy(_)) {
                        return plan_err!(
                            "EXPLAIN ANALYZE COPY would write a release, and a cluster does not write them: write EXPLAIN \
                             ANALYZE SELECT … for the measures of its query, and COPY for the release"
                        );
                    }
                    check_not_inserted(&analyze.input)?;
                    self.on_cluster(plan, session).await
                }
                _ => {
                    check_not_inserted(plan)?;
                    self.on_cluster(plan, session).await
                }
            }
        })
    }
}

impl QueryPlanner for ClientPlanner {
    // As `async_trait` would write it, except that a function without bounds on lifetimes boxes the future: with such bounds
    // the compiler takes seconds to prove that everything in a plan can be sent to another thread.
    fn create_physical_plan<'s: 'f, 'p: 'f, 'c: 'f, 'f>(
        &'s self,
        plan: &'p LogicalPlan,
        session: &'c dyn Session,
    ) -> BoxFuture<'f, Result<Arc<dyn ExecutionPlan>>> {
        self.plan_statement(plan, session)
    }
}

/// Tasks that die are run again: a release that they insert would be there in part or twice.
fn check_not_inserted(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Dml(statement) = plan else { return Ok(()) };
    plan_err!(
        "{} '{}' of a release does not work on a cluster, whose tasks could leave a part of it: write COPY (SELECT … FROM \
         anonymize(…)) TO 'directory/' STORED AS PARQUET; files that COPY writes into a table's directory are added to \
         the table",
        statement.op.name(),
        statement.table_name
    )
}

/// Tables in memory stay here; the cluster would fail over them with an internal error.
fn check_tables(plan: &LogicalPlan) -> Result<()> {
    let mut in_memory = None;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Dml(statement) = plan
            && let Ok(provider) = source_as_provider(&statement.target)
            && provider.is::<MemTable>()
        {
            in_memory = Some(statement.table_name.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        if let LogicalPlan::TableScan(scan) = plan
            && let Ok(provider) = source_as_provider(&scan.source)
            && provider.is::<MemTable>()
        {
            in_memory = Some(scan.table_name.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match in_memory {
        None => Ok(()),
        Some(name) => plan_err!(
            "the table '{name}' is in the memory of this client, where a cluster cannot reach it: write CREATE VIEW instead \
             of CREATE TABLE, or COPY its query to files and read them with CREATE EXTERNAL TABLE"
        ),
    }
}
