-- kaim: rows with missing values are kept. A missing cell is the top of its hierarchy, so rows that
-- miss the same column find each other, and their other columns stay sharp.
CREATE TABLE census AS
SELECT age, sex, education, native_country, occupation
FROM sample_census(rows => 3000, seed => 7, missing => 0.05);

-- What is published. A class of missing cells publishes NULL; a class that mixes them with values
-- publishes *.
SELECT * FROM anonymize(
  census,
  k => 5, method => 'kaim',
  quasi_identifiers => ['age', 'sex', 'education', 'native_country'], sensitive => ['occupation'],
  hierarchies => {education: sample_hierarchy(column => 'education'),
                  native_country: sample_hierarchy(column => 'native_country')},
  seed => '6f2a1c94e07b5d38a1f4c2e69b8d7035'
)
WHERE education IS NULL
LIMIT 10;

-- What it cost: iloss_rate is the share of all information that is lost, by generalization or with rows that are not
-- published. vmr is the share of the
-- original's cells that are missing, rmr the share of its rows that miss one.
SELECT measure, round(value, 4) AS value FROM utility_report(
  census,
  anonymize(
    census, k => 5, method => 'kaim',
    quasi_identifiers => ['age', 'sex', 'education', 'native_country'], sensitive => ['occupation'],
    hierarchies => {education: sample_hierarchy(column => 'education'),
                    native_country: sample_hierarchy(column => 'native_country')}
  ),
  quasi_identifiers => ['age', 'sex', 'education', 'native_country'],
  hierarchies => {education: sample_hierarchy(column => 'education'),
                  native_country: sample_hierarchy(column => 'native_country')}
)
WHERE column_name IS NULL;

-- k_member, to compare with, drops every row that misses a quasi-identifier. It must be allowed to:
-- by default it may drop 5 % of the rows. A dropped row counts as lost in iloss_rate.
SELECT measure, round(value, 4) AS value FROM utility_report(
  census,
  anonymize(
    census, k => 5, method => 'k_member', suppression_limit => 0.3,
    quasi_identifiers => ['age', 'sex', 'education', 'native_country'], sensitive => ['occupation'],
    hierarchies => {education: sample_hierarchy(column => 'education'),
                    native_country: sample_hierarchy(column => 'native_country')}
  ),
  quasi_identifiers => ['age', 'sex', 'education', 'native_country'],
  hierarchies => {education: sample_hierarchy(column => 'education'),
                  native_country: sample_hierarchy(column => 'native_country')}
)
WHERE measure IN ('suppressed_rows', 'iloss_rate') AND column_name IS NULL;

-- A column that matters more than the others, with its weight; and l distinct occupations in every
-- class, which k_member and bottom_up take as well.
SELECT min(rows) AS smallest_class, min(occupations) AS fewest_occupations
FROM (
  SELECT count(*) AS rows, count(DISTINCT occupation) AS occupations
  FROM anonymize(
    (SELECT age, sex, education, occupation FROM census WHERE occupation IS NOT NULL),
    k => 5, l => 3, method => 'kaim', weights => {age: 2.0}, class_id => true,
    quasi_identifiers => ['age', 'sex', 'education'], sensitive => ['occupation']
  )
  GROUP BY class_id
);
