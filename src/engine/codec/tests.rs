//! Every option of every method survives its way as bytes, and other bytes do not pass.

use std::sync::Arc;

use anonymize_sample::SampleCodec;
use datafusion::common::Result;
use datafusion::logical_expr::{Extension, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec,
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::logical_plan::{DefaultLogicalExtensionCodec, LogicalExtensionCodec};
use datafusion_proto::physical_plan::{
    DefaultPhysicalExtensionCodec, DefaultPhysicalProtoConverter, PhysicalExtensionCodec,
};

use super::*;
use crate::engine::exec::RedactErrorsExec;
use crate::engine::reports::ReportExec;
use crate::engine::{
    AnonymizeConfig, AnonymizeExec, CellExec, register_all, register_sql, with_cluster_planning,
};
use crate::method::{Family, MethodOption, methods};

const CENSUS: &str = "(SELECT age, sex, education, zip, birth_date, occupation, hours_per_week, person_id FROM \
                      sample_census(rows => 500, seed => 9, missing => 0.02))";
const ROLES: &str = "quasi_identifiers => ['age', 'sex', 'education', 'zip', 'birth_date'], sensitive => \
                     ['occupation'], keep => ['hours_per_week']";

/// Calls that together use every option, kind of hierarchy, setting and report.
fn queries() -> Vec<String> {
    let mut queries = Vec::new();
    let mut call = |options: &str| {
        queries.push(format!("SELECT * FROM anonymize({CENSUS}, {ROLES}, {options})"));
    };
    for method in methods().filter(|method| method.family() == Family::Classes) {
        let more: &[&str] = match method {
            cuts if cuts.takes(MethodOption::Split) => {
                &["split => 'least_loss'", "split => 'widest'"]
            }
            clusters if clusters.takes(MethodOption::Weights) => {
                &["weights => {age: 2.5, zip: 0.5}, block_rows => 64"]
            }
            _ => &["ranges => 'bounds'"],
        };
        for more in more {
            call(&format!(
                "identifiers => ['person_id'], k => 7, method => '{method}', {more}, suppression_limit => 0.5, \
                 seed => 'x'"
            ));
        }
    }
    for ranges in ["label", "bounds", "mean"] {
        call(&format!(
            "k => 3, privacy_unit => 'person_id', unit_share => 0.5, ranges => '{ranges}', class_id => true"
        ));
    }
    let identifiers = "identifiers => ['person_id']";
    for models in [
        "l => 2",
        "entropy_l => 1.5",
        "t => 0.125",
        "alpha => 0.7",
        "l => 2, entropy_l => 1.25, t => 0.5, alpha => 0.9",
        "alpha => [0.8, 0.9], sensitivity => (SELECT DISTINCT occupation, 1 + age % 2 FROM sample_census(rows => 3))",
        "alpha => [0.8, 0.9], alpha_scope => 'level', sensitivity => {Sales: 1, 'Tech-support': 2}",
    ] {
        call(&format!("{identifiers}, k => 3, {models}"));
    }
    call(&format!(
        "{identifiers}, k => 3, method => 'layered', suppress => true, suppression_limit => 0.25"
    ));
    call(&format!(
        "{identifiers}, k => 3, hierarchies => {{age: intervals(5, 10), zip: prefixes(4, 2), birth_date: \
         date_steps('month', 'quarter', 'year', 'decade', 'century'), education: \
         sample_hierarchy(column => 'education'), sex: (SELECT 'Male', '*' UNION ALL SELECT 'Female', '*')}}"
    ));
    call(&format!("{identifiers}, k => 3, hierarchies => {{education: '/no/such/file.csv'}}"));
    for (variant, more) in [("best", "column_groups => true"), ("paper", "min_columns => 2")] {
        call(&format!(
            "{identifiers}, k => 4, l => 2, method => 'slicing', columns => 5, rare_below => 0.125, variant => \
             '{variant}', bucket_id => true, column_groups => true"
        ));
        call(&format!(
            "{identifiers}, k => 4, l => 2, method => 'asg_ls', max_columns => 4, {more}, min_support => \
             0.25, min_confidence => 0.75, weights => {{age: 3}}, block_rows => 128, variant => '{variant}', \
             hierarchies => {{occupation: sample_hierarchy(column => 'occupation')}}"
        ));
    }
    call(&format!(
        "{identifiers}, k => 3, method => 'top_down', hierarchies => {{age: intervals(10), zip: prefixes(2), \
         birth_date: date_steps('year'), sex: sample_hierarchy('sex'), education: sample_hierarchy('education')}}"
    ));
    queries.extend(more_queries());
    queries
}

fn more_queries() -> Vec<String> {
    let mut queries = Vec::new();
    let two = "(SELECT age, sex, education FROM sample_census(rows => 300))";
    for method in methods().filter(|method| method.takes(MethodOption::ManyConstraints)) {
        for suppress in ["cells", "rows"] {
            queries.push(format!(
                "SELECT * FROM anonymize({two}, quasi_identifiers => ['age', 'sex', 'education'], method => \
                 '{method}', suppress => '{suppress}', suppression_limit => 0.5, constraints => [{{columns: ['age', \
                 'sex'], k: 3}}, {{columns: ['education'], k: 2}}])"
            ));
        }
    }
    let apart = "(SELECT age, sex, occupation FROM sample_census(rows => 300))";
    for publish in ["quasi_identifiers", "sensitive"] {
        for variant in ["best", "paper"] {
            queries.push(format!(
                "SELECT * FROM anonymize({apart}, k => 3, quasi_identifiers => ['age', 'sex'], sensitive => \
                 ['occupation'], method => 'alpha_k', alpha => 0.9, publish => '{publish}', variant => '{variant}')"
            ));
        }
    }
    let published = format!(
        "(SELECT age, sex, occupation FROM anonymize({apart}, k => 3, quasi_identifiers => ['age', 'sex'], \
         sensitive => ['occupation'], seed => 1))"
    );
    let of = "quasi_identifiers => ['age', 'sex']";
    queries.extend([
        format!(
            "SELECT * FROM privacy_report({published}, {of}, sensitive => ['occupation'], k => 3, l => 2, \
             entropy_l => 1.5, t => 0.5, alpha => 0.75)"
        ),
        format!(
            "SELECT * FROM privacy_report({published}, {of}, sensitive => ['occupation'], alpha => [0.5, 0.75], \
             sensitivity => {{Sales: 1}}, alpha_scope => 'level')"
        ),
        format!(
            "SELECT * FROM privacy_report({published}, constraints => [{{columns: ['age'], k: 3}}, {{columns: \
             ['age', 'sex'], k: 2}}])"
        ),
        format!(
            "SELECT * FROM privacy_report((SELECT age, occupation, 1 AS bucket FROM {apart}), bucket => 'bucket', \
             sensitive => ['occupation'], k => 3)"
        ),
        format!(
            "SELECT * FROM utility_report({apart}, {published}, {of}, class => 'occupation', k => 3, hierarchies => \
             {{age: intervals(5), sex: sample_hierarchy('sex')}}, min_support => 0.25, min_confidence => 0.5, \
             max_columns => 2)"
        ),
        format!(
            "SELECT * FROM utility_report({apart}, {published}, {of}, sensitive => ['occupation'], sensitivity => \
             (SELECT DISTINCT occupation, 1 FROM sample_census(rows => 5000)))"
        ),
        format!(
            "SELECT * FROM series_report({published}, {published}, {of}, sensitive => ['occupation'], k => 3, l => 2, \
             alpha => 0.5, hierarchies => {{age: intervals(5), sex: sample_hierarchy('sex')}}, register => (SELECT \
             person_id AS person, 1 AS release, age, sex FROM sample_census(rows => 300)))"
        ),
        format!(
            "SELECT * FROM series_report((SELECT 1 AS cohort, * FROM {published}), sensitive => ['occupation'], register \
             => (SELECT person_id AS person, 1 AS release, 1 AS class FROM sample_census(rows => 300)))"
        ),
        format!("SELECT * FROM anonymize({apart}, k => 3, {of}, sensitive => ['occupation']) WHERE random() < 2"),
        format!("SELECT sex FROM anonymize({apart}, k => 3, {of}, sensitive => ['occupation']) LIMIT 5"),
        format!("SELECT * FROM {apart} ORDER BY age LIMIT 5"),
    ]);
    queries
}

fn context(cells: u32) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(3);
    let context = SessionContext::new_with_config(config);
    register_all(&context)?;
    anonymize_sample::register(&context)?;
    let state = context.state_ref();
    let mut state = state.write();
    let settings = AnonymizeConfig { cells, ..Default::default() };
    state.config_mut().options_mut().extensions.insert(settings);
    drop(state);
    Ok(context)
}

fn logical() -> AnonymizeLogicalCodec {
    let behind = Arc::new(DefaultLogicalExtensionCodec {});
    AnonymizeLogicalCodec::new(behind).with_tables(Arc::new(SampleCodec))
}

fn physical() -> AnonymizePhysicalCodec {
    AnonymizePhysicalCodec::new(Arc::new(SampleCodec))
}

/// The contents of every node of ours in a logical plan.
fn contents(plan: &LogicalPlan) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    datafusion::common::tree_node::TreeNode::apply(plan, |plan| {
        if let LogicalPlan::Extension(node) = plan {
            let mut buf = Vec::new();
            logical().try_encode(node, &mut buf)?;
            all.push(buf);
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}

/// The contents of every operator of ours in a plan.
fn operators(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Vec<u8>>> {
    let mut buf = Vec::new();
    // DataFusion's own operators are none of the codec's business.
    let own = physical().try_encode(Arc::clone(plan), &mut buf, &DefaultPhysicalProtoConverter {});
    let mut all: Vec<Vec<u8>> = own.is_ok().then_some(buf).into_iter().collect();
    for child in plan.children() {
        all.extend(operators(child)?);
    }
    Ok(all)
}

#[tokio::test]
async fn every_logical_plan_survives() -> Result<()> {
    let context = context(0)?;
    for sql in queries() {
        let plan = context.state().create_logical_plan(&sql).await?;
        let plan = context.state().optimize(&plan)?;
        let bytes = logical_plan_to_bytes_with_extension_codec(&plan, &logical())?;
        let task = context.task_ctx();
        let back = logical_plan_from_bytes_with_extension_codec(&bytes, &task, &logical())?;
        assert_eq!(
            plan.display_indent_schema().to_string(),
            back.display_indent_schema().to_string()
        );
        // Every field of every request, not only what a plan shows.
        assert_eq!(contents(&plan)?, contents(&back)?, "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn every_physical_plan_survives_in_one_piece_and_in_cells() -> Result<()> {
    for cells in [0, 4] {
        let context = context(cells)?;
        for sql in queries() {
            let plan = context.sql(&sql).await?.create_physical_plan().await?;
            let codec = physical();
            let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &codec)?;
            let task = context.task_ctx();
            let back = physical_plan_from_bytes_with_extension_codec(&bytes, &task, &codec)?;
            let shown = |plan: &dyn ExecutionPlan| displayable(plan).indent(true).to_string();
            assert_eq!(shown(plan.as_ref()), shown(back.as_ref()), "{sql}");
            // Every field of every request, not only what a plan shows.
            assert_eq!(operators(&plan)?, operators(&back)?, "{sql}");
            assert_eq!(plan.schema(), back.schema());
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_that_travelled_makes_the_same_release() -> Result<()> {
    for cells in [0, 3] {
        let context = context(cells)?;
        let sql = format!(
            "SELECT * FROM anonymize({CENSUS}, {ROLES}, identifiers => ['person_id'], k => 4, l => 2, t => 0.6, \
             class_id => true, hierarchies => {{education: sample_hierarchy('education'), zip: prefixes(3)}}, \
             seed => 'a secret')"
        );
        let plan = context.sql(&sql).await?.create_physical_plan().await?;
        let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &physical())?;
        let task = context.task_ctx();
        let back = physical_plan_from_bytes_with_extension_codec(&bytes, &task, &physical())?;
        let here = datafusion::physical_plan::collect(plan, context.task_ctx()).await?;
        let there = datafusion::physical_plan::collect(back, context.task_ctx()).await?;
        assert_eq!(here, there);
        assert_eq!(here.iter().map(|batch| batch.num_rows()).sum::<usize>(), 500);
    }
    Ok(())
}

#[tokio::test]
async fn a_series_travels_whole_or_in_one_task() -> Result<()> {
    let context = context(0)?;
    let none = "FROM sample_census(rows => 9) WHERE age < 0";
    let sql = format!(
        "SELECT * FROM anonymize((SELECT age, sex, occupation, row_number() OVER () AS id FROM sample_census(rows => \
         300)), k => 4, quasi_identifiers => ['age', 'sex'], sensitive => ['occupation'], privacy_unit => 'id', seed \
         => 'a secret', held => true, leavers => 'withdraw', series => {{members: (SELECT arrow_cast('', 'Binary') \
         AS person, age AS cohort {none}), last: (SELECT age AS cohort {none})}})"
    );
    let plan = context.sql(&sql).await?.create_physical_plan().await?;
    let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &physical())?;
    let task = context.task_ctx();
    let back = physical_plan_from_bytes_with_extension_codec(&bytes, &task, &physical())?;
    assert_eq!(operators(&plan)?, operators(&back)?);
    let there = datafusion::physical_plan::collect(back, context.task_ctx()).await?;
    assert_eq!(there.iter().map(|batch| batch.num_rows()).sum::<usize>(), 300);
    let cluster = planning_for_a_cluster(0)?;
    let plan = cluster.sql(&sql).await?.create_physical_plan().await?;
    fn release(plan: &Arc<dyn ExecutionPlan>) -> Option<&AnonymizeExec> {
        let here = plan.downcast_ref::<AnonymizeExec>();
        here.or_else(|| plan.children().into_iter().find_map(release))
    }
    let children = release(&plan).map(|release| release.children()).unwrap_or_default();
    assert_eq!(children.len(), 3);
    assert!(children.iter().all(|of| of.output_partitioning().partition_count() == 1));
    Ok(())
}

#[tokio::test]
async fn other_versions_and_broken_bytes_are_refused() -> Result<()> {
    let context = context(0)?;
    let task = context.task_ctx();
    let sql = "SELECT * FROM anonymize((SELECT age FROM sample_census(rows => 9)), k => 3, quasi_identifiers => \
               ['age'], seed => 314159265)";
    let plan = context.state().create_logical_plan(sql).await?;
    let node = contents(&plan)?.remove(0);
    let read = |bytes: &[u8]| logical().try_decode(bytes, std::slice::from_ref(&plan), &task);
    let message = |bytes: &[u8]| match read(bytes) {
        Ok(Extension { .. }) => "accepted".to_owned(),
        Err(error) => error.strip_backtrace(),
    };
    let with = |at: usize, value: u8| {
        let mut bytes = node.clone();
        bytes[at] = value;
        bytes
    };
    assert!(message(&with(9, VERSION + 1)).contains(&format!("came in format {}", VERSION + 1)));
    assert!(message(&with(10, 99)).contains("a node of kind 99"));
    assert!(message(&node[..9]).contains("without its contents"));
    assert!(message(&node[..node.len() - 3]).contains("cannot be read"));
    let mut longer = node.clone();
    longer.push(0);
    assert!(message(&longer).contains("cannot be read"));
    // What is not ours goes to the codec behind.
    assert!(message(b"something else").contains("LogicalExtensionCodec is not provided"));
    let converter = DefaultPhysicalProtoConverter {};
    let alone = AnonymizePhysicalCodec::new(Arc::new(DefaultPhysicalExtensionCodec {}));
    let foreign = alone.try_decode(b"something else", &[], &task, &converter);
    assert!(foreign.is_err_and(|error| error.to_string().contains("is not provided")));
    let newer = physical().try_decode(&with(9, 7), &[], &task, &converter);
    assert!(newer.is_err_and(|error| error.to_string().contains("came in format 7")));
    Ok(())
}

#[tokio::test]
async fn no_string_of_a_plan_shows_the_seed() -> Result<()> {
    for cells in [0, 4] {
        let context = context(cells)?;
        let sql = format!(
            "SELECT * FROM anonymize({CENSUS}, {ROLES}, identifiers => ['person_id'], k => 4, seed => 314159265)"
        );
        let frame = context.sql(&sql).await?;
        let plan = frame.clone().create_physical_plan().await?;
        let shown = [
            format!("{:?}", frame.logical_plan()),
            frame.logical_plan().display_graphviz().to_string(),
            format!("{plan:?}"),
            displayable(plan.as_ref()).indent(true).to_string(),
            displayable(plan.as_ref()).graphviz().to_string(),
            displayable(plan.as_ref()).tree_render().to_string(),
        ];
        assert!(shown.iter().all(|text| !text.contains("314159265")));
    }
    Ok(())
}

/// Inputs with exchanges of every kind, over four partitions.
fn inputs_in_stages() -> Vec<String> {
    let four = "(SELECT age, zip, occupation FROM sample_census(rows => 90) UNION ALL SELECT age, zip, occupation \
                FROM sample_census(rows => 90, seed => 2))";
    let number = "CAST(zip AS INT) AS zip";
    [
        format!("SELECT age, {number}, count(*) AS n FROM {four} GROUP BY 1, 2"),
        format!("SELECT age, {number}, 1 AS n FROM {four} ORDER BY 1, 2 LIMIT 70"),
        format!("SELECT a.age, a.zip, b.n FROM (SELECT age, {number} FROM {four}) a JOIN (SELECT occupation AS o, \
                 CAST(zip AS INT) AS n FROM {four}) b ON a.zip = b.n"),
        format!("SELECT age, zip, rank() OVER (PARTITION BY CAST(zip AS INT) ORDER BY age) AS n FROM {four}"),
        format!("SELECT age, {number}, 1 AS n FROM {four} UNION ALL SELECT min(age), min({zip}), 2 FROM {four}", zip = "CAST(zip AS INT)"),
    ]
    .into()
}

/// Whether no part of an input can fail in a task of its own with a message that quotes a value.
fn redacts(plan: &Arc<dyn ExecutionPlan>, in_input: bool) -> bool {
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
    let is_ours = |plan: &Arc<dyn ExecutionPlan>| {
        plan.is::<AnonymizeExec>() || plan.is::<CellExec>() || plan.is::<ReportExec>()
    };
    let is_exchange = |plan: &Arc<dyn ExecutionPlan>| {
        plan.is::<RepartitionExec>()
            || plan.is::<CoalescePartitionsExec>()
            || plan.is::<SortPreservingMergeExec>()
    };
    let is_cut = in_input && (is_exchange(plan) || !is_ours(plan) && plan.children().len() > 1);
    plan.children().into_iter().all(|child| {
        let is_safe = is_ours(child) || is_exchange(child) || child.is::<RedactErrorsExec>();
        (is_safe || !is_cut) && redacts(child, in_input || is_ours(plan))
    })
}

fn planning_for_a_cluster(cells: u32) -> Result<SessionContext> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3));
    let state = context.state_ref();
    let planning = with_cluster_planning(state.read().clone());
    *state.write() = planning;
    register_sql(&context)?;
    anonymize_sample::register(&context)?;
    let settings = AnonymizeConfig { cells, ..Default::default() };
    state.write().config_mut().options_mut().extensions.insert(settings);
    Ok(context)
}

/// Rows of a last step that an executor's death makes run again would be published twice.
#[tokio::test]
async fn what_a_cluster_publishes_comes_from_one_task() -> Result<()> {
    let release = "SELECT age, zip FROM anonymize((SELECT age, zip FROM sample_census(rows => 100)), k => 2, \
                   quasi_identifiers => ['age', 'zip'])";
    let both = format!("{release} UNION ALL {release}");
    for sql in [both.clone(), format!("SELECT zip, count(*) FROM ({both}) GROUP BY zip")] {
        let cluster = planning_for_a_cluster(4)?;
        let plan = cluster.sql(&sql).await?.create_physical_plan().await?;
        assert_eq!(plan.properties().partitioning.partition_count(), 1);
        let here = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3));
        register_all(&here)?;
        anonymize_sample::register(&here)?;
        let plan = here.sql(&sql).await?.create_physical_plan().await?;
        assert!(plan.properties().partitioning.partition_count() > 1, "nothing to bring together");
    }
    Ok(())
}

#[tokio::test]
async fn stages_of_a_cluster_redact_values_and_survive() -> Result<()> {
    for cells in [0, 4] {
        let context = planning_for_a_cluster(cells)?;
        for input in inputs_in_stages() {
            for call in [
                format!(
                    "anonymize(({input}), k => 2, quasi_identifiers => ['age', 'zip'], keep => ['n'], seed => 1)"
                ),
                format!("privacy_report(({input}), k => 2, quasi_identifiers => ['age', 'zip'])"),
            ] {
                let frame = context.sql(&format!("SELECT * FROM {call}")).await?;
                let plan = frame.create_physical_plan().await?;
                let shown = |plan: &dyn ExecutionPlan| displayable(plan).indent(true).to_string();
                let text = shown(plan.as_ref());
                assert!(text.contains("RedactErrorsExec") && redacts(&plan, false), "{text}");
                let codec = physical();
                let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(&plan), &codec)?;
                let task = context.task_ctx();
                let back = physical_plan_from_bytes_with_extension_codec(&bytes, &task, &codec)?;
                assert_eq!(text, shown(back.as_ref()));
                let here = datafusion::physical_plan::collect(plan, context.task_ctx()).await?;
                let there = datafusion::physical_plan::collect(back, context.task_ctx()).await?;
                assert_eq!(here, there);
            }
        }
    }
    Ok(())
}
