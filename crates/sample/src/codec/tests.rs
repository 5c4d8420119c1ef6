//! What another machine reads is the same sample, in one partition.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};

use super::*;

const QUERIES: [&str; 2] = [
    "SELECT age, zip, person_id FROM sample_census(rows => 1000, seed => 9, missing => 0.02)",
    "SELECT * FROM sample_hierarchy(column => 'education')",
];

fn session(partitions: usize) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(100);
    let context = SessionContext::new_with_config(config);
    crate::register(&context)?;
    Ok(context)
}

fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.properties().partitioning.partition_count()
}

#[tokio::test]
async fn tables_survive_and_are_scanned_in_one_partition() -> Result<()> {
    let context = session(3)?;
    for sql in QUERIES {
        let plan = context.state().create_logical_plan(sql).await?;
        let plan = context.state().optimize(&plan)?;
        let bytes = logical_plan_to_bytes_with_extension_codec(&plan, &SampleCodec)?;
        let task = context.task_ctx();
        let back = logical_plan_from_bytes_with_extension_codec(&bytes, &task, &SampleCodec)?;
        let back = context.state().create_physical_plan(&back).await?;
        assert_eq!(partitions(&back), 1, "{sql}");
        let expected = session(1)?.sql(sql).await?.collect().await?;
        assert_eq!(collect(back, context.task_ctx()).await?, expected, "{sql}");
    }
    let census = context.sql(QUERIES[0]).await?.create_physical_plan().await?;
    assert_eq!(partitions(&census), 3);
    Ok(())
}

#[tokio::test]
async fn scans_survive() -> Result<()> {
    let context = session(3)?;
    for sql in QUERIES {
        let plan = context.sql(sql).await?.create_physical_plan().await?;
        let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &SampleCodec)?;
        let task = context.task_ctx();
        let back = physical_plan_from_bytes_with_extension_codec(&bytes, &task, &SampleCodec)?;
        let shown = |plan: &dyn ExecutionPlan| displayable(plan).indent(true).to_string();
        assert_eq!(shown(plan.as_ref()), shown(back.as_ref()), "{sql}");
    }
    Ok(())
}

#[test]
fn other_versions_and_broken_bytes_are_refused() -> Result<()> {
    let mut bytes = Vec::new();
    encode(&"education", &mut bytes)?;
    assert_eq!(decode::<String>(&bytes)?, "education");
    let message = |bytes: &[u8]| match decode::<String>(bytes) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(message(&bytes[..bytes.len() - 1]).contains("cannot be read"));
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(message(&longer).contains("cannot be read"));
    bytes[0] = VERSION + 1;
    assert!(message(&bytes).contains("run the same version"));
    Ok(())
}
