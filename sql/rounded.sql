-- rounded: the most and smallest classes, exactly n/k of them. From n >= k(k - 1) rows on, every class has k or k + 1 rows.
SELECT age, education, count(*) AS class_size
FROM anonymize(
  (SELECT age, education, occupation FROM sample_census(rows => 5000)),
  k => 25, method => 'rounded',
  quasi_identifiers => ['age', 'education'], sensitive => ['occupation'],
  hierarchies => {education: sample_hierarchy(column => 'education')},
  class_id => true
)
GROUP BY class_id, age, education
ORDER BY class_id
LIMIT 10;

-- Numbers as bounds or means instead of labels, for programs that compute with them.
SELECT * FROM anonymize(
  (SELECT age, hours_per_week, occupation FROM sample_census(rows => 5000)),
  k => 25, ranges => 'bounds',
  quasi_identifiers => ['age', 'hours_per_week'], sensitive => ['occupation']
) LIMIT 3;
SELECT * FROM anonymize(
  (SELECT age, hours_per_week, occupation FROM sample_census(rows => 5000)),
  k => 25, ranges => 'mean',
  quasi_identifiers => ['age', 'hours_per_week'], sensitive => ['occupation']
) LIMIT 3;
