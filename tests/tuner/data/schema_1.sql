-- A database as version 1 of the schema wrote it. It never changes.
CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL, target TEXT NOT NULL, driver TEXT NOT NULL, generator TEXT NOT NULL, precision TEXT NOT NULL,
  threads INTEGER NOT NULL CHECK (threads > 0),
  UNIQUE (device, target, driver, generator, precision, threads)
);
CREATE TABLE regions (
  id INTEGER PRIMARY KEY,
  identity TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL, description TEXT NOT NULL
);
CREATE TABLE measurements (
  environment INTEGER NOT NULL REFERENCES environments (id),
  region INTEGER NOT NULL REFERENCES regions (id),
  keys TEXT NOT NULL, schedule TEXT NOT NULL, multiples TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'wrong', 'crashed', 'hung', 'out_of_bounds', 'out_of_memory', 'uncompiled')),
  measured INTEGER NOT NULL CHECK (measured IN (0, 1)),
  seconds REAL NOT NULL CHECK (seconds >= 0), spread REAL NOT NULL CHECK (spread >= 0), samples INTEGER NOT NULL CHECK (samples >= 0),
  code_bytes INTEGER NOT NULL, instructions INTEGER NOT NULL, spills INTEGER NOT NULL, registers INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL, shared_bytes INTEGER NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (environment, region, keys, schedule, multiples)
) WITHOUT ROWID;
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  environment INTEGER NOT NULL REFERENCES environments (id),
  model TEXT NOT NULL, distribution TEXT NOT NULL,
  budget_seconds REAL NOT NULL, most_kernels INTEGER NOT NULL, kernels INTEGER NOT NULL, trials INTEGER NOT NULL,
  expected_seconds REAL NOT NULL, lower_bound_seconds REAL NOT NULL, default_seconds REAL NOT NULL,
  finished TEXT NOT NULL
);
CREATE TABLE tables (
  environment INTEGER NOT NULL REFERENCES environments (id),
  region INTEGER NOT NULL REFERENCES regions (id),
  run INTEGER NOT NULL REFERENCES runs (id),
  PRIMARY KEY (environment, region)
) WITHOUT ROWID;
CREATE TABLE entries (
  environment INTEGER NOT NULL, region INTEGER NOT NULL, position INTEGER NOT NULL,
  bucket TEXT NOT NULL, kernel TEXT NOT NULL, schedule TEXT NOT NULL,
  seconds REAL NOT NULL CHECK (seconds >= 0), measured INTEGER NOT NULL CHECK (measured IN (0, 1)),
  PRIMARY KEY (environment, region, position),
  FOREIGN KEY (environment, region) REFERENCES tables (environment, region)
) WITHOUT ROWID;
INSERT INTO environments VALUES (1, 'AMD EPYC 9B14', 'x86-64 avx512', '', 'abc LLVM 19', 'f32', 2);
INSERT INTO regions VALUES (1, 'region A', 'matmul_0', '');
INSERT INTO measurements VALUES (1, 1, '[8,64]', 'matmul rows=16', '[]', 'ok', 1, 1e-6, 0.01, 20, 1, 2, 3, 4, 5, 6, '');
INSERT INTO runs VALUES (1, 1, 'old.onnx', 'constant(8)', 60, 4, 4, 100, 1, 1, 1, '2026-01-01T00:00:00Z');
INSERT INTO tables VALUES (1, 1, 1);
INSERT INTO entries VALUES (1, 1, 0, '[[1,15,1],[1,512,1]]', '[[1,512,1],[1,512,1]]', 'matmul rows=8', 2e-6, 1);
INSERT INTO entries VALUES (1, 1, 1, '[[1,512,1],[1,512,1]]', '[[1,512,1],[1,512,1]]', 'matmul rows=16', 4e-6, 0);
PRAGMA application_id = 1097759044;
PRAGMA user_version = 1;
