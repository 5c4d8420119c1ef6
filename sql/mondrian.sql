-- mondrian (strict): equal values always stay together, so a value is in one range only. Classes can
-- be large where one value is frequent.
SELECT count(DISTINCT class_id) AS classes
FROM anonymize(
  (SELECT age, education, occupation FROM sample_census(rows => 5000)),
  k => 25, method => 'mondrian', class_id => true,
  quasi_identifiers => ['age', 'education'], sensitive => ['occupation']
);

-- mondrian_relaxed: halves, so classes have at most 2k − 1 rows; equal values may be parted.
SELECT count(DISTINCT class_id) AS classes
FROM anonymize(
  (SELECT age, education, occupation FROM sample_census(rows => 5000)),
  k => 25, method => 'mondrian_relaxed', class_id => true,
  quasi_identifiers => ['age', 'education'], sensitive => ['occupation']
);
