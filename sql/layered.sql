-- layered: the least loss. Rows whose values occur k times stay as they are; the others are
-- generalized step by step until k of them agree.
SELECT age, education, count(*) AS class_size
FROM anonymize(
  (SELECT age, education, occupation FROM sample_census(rows => 5000)),
  k => 25, method => 'layered',
  quasi_identifiers => ['age', 'education'], sensitive => ['occupation'],
  hierarchies => {education: sample_hierarchy(column => 'education')},
  class_id => true
)
GROUP BY class_id, age, education
ORDER BY class_id
LIMIT 10;

-- The few rows that fit nowhere widen a class. They can be left out instead, and are counted.
SELECT count(*) AS rows
FROM anonymize(
  (SELECT age, education, occupation FROM sample_census(rows => 5000)),
  k => 25, method => 'layered', suppress => true, suppression_limit => 0.01,
  quasi_identifiers => ['age', 'education'], sensitive => ['occupation']
);
