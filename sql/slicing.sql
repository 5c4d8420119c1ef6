-- Slicing: with many columns generalization leaves little. asg_ls keeps every value as it is and breaks
-- the links between groups of columns instead, inside buckets of at least k rows.
CREATE TABLE census AS
SELECT age, sex, education, marital_status, native_country, workclass, hours_per_week, occupation
FROM sample_census(rows => 3000, seed => 7);

-- l => 3: whoever knows all quasi-identifiers of a person names the occupation with a chance of at most 1/3.
CREATE TABLE sliced AS
SELECT * FROM anonymize(
  census,
  k => 10, l => 3, method => 'asg_ls',
  quasi_identifiers => ['age', 'sex', 'education', 'marital_status', 'native_country', 'workclass', 'hours_per_week'],
  sensitive => ['occupation'],
  hierarchies => {education: sample_hierarchy(column => 'education'),
                  occupation: sample_hierarchy(column => 'occupation')},
  min_support => 0.1, min_confidence => 0.6, bucket_id => true, column_groups => true, seed => '6f2a1c94e07b5d38a1f4c2e69b8d7035'
);

SELECT * FROM sliced LIMIT 10;

-- Which columns of a bucket belong together: links inside a group are true, links between groups are not.
SELECT column_groups, count(DISTINCT bucket_id) AS buckets FROM sliced GROUP BY column_groups ORDER BY buckets DESC, column_groups LIMIT 5;

-- The buckets of the release: at least k rows, at least l occupations, and the chance of naming one.
SELECT measure, column_name, round(value, 4) AS value, holds
FROM privacy_report(sliced, bucket => 'bucket_id', sensitive => ['occupation'], k => 10, l => 3)
WHERE holds IS NOT NULL;

-- Rows are put together from several persons. By accident some are somebody's all the same.
SELECT measure, round(value, 4) AS value FROM privacy_report(
  sliced, bucket => 'bucket_id', original => census,
  quasi_identifiers => ['age', 'sex', 'education', 'marital_status', 'native_country', 'workclass', 'hours_per_week'])
WHERE measure IN ('intact_tuples', 'unique_intact_tuples', 'undivided_buckets');

-- What is left of the associations: rules between values, and between nodes of the hierarchies, that hold
-- in the original and in the release.
SELECT measure, round(value, 4) AS value FROM utility_report(
  census, sliced,
  quasi_identifiers => ['age', 'sex', 'education', 'marital_status', 'native_country', 'workclass', 'hours_per_week'],
  sensitive => ['occupation'],
  hierarchies => {education: sample_hierarchy(column => 'education'),
                  occupation: sample_hierarchy(column => 'occupation')},
  min_support => 0.1, min_confidence => 0.6
)
WHERE column_name IS NULL AND measure IN ('ncp', 'rules_original', 'rules_kept', 'association_retention');

-- Plain slicing has one set of columns for the whole table, here five with the occupation. Values that fewer than 0.5 % of the
-- rows have are generalized with their bucket.
SELECT * FROM anonymize(
  census,
  k => 10, l => 3, method => 'slicing', columns => 5, rare_below => 0.005,
  quasi_identifiers => ['age', 'sex', 'education', 'marital_status', 'native_country', 'workclass', 'hours_per_week'],
  sensitive => ['occupation'], seed => '6f2a1c94e07b5d38a1f4c2e69b8d7035'
)
LIMIT 10;
