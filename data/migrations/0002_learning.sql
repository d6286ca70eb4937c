-- What the desk learns from, what is kept for judging, who signed for which model, and when training is due.

CREATE TABLE cluster_part (               -- where a question cluster stands for good; written once, never redrawn
    cluster_id  TEXT PRIMARY KEY,
    part        TEXT NOT NULL,            -- train, validation, calibration, gate
    assigned_at TIMESTAMPTZ NOT NULL
);

CREATE SEQUENCE sign_off_seq;
CREATE TABLE sign_off (                   -- who put which model in use, and why; appended only
    sign_off_id BIGINT PRIMARY KEY DEFAULT nextval('sign_off_seq'),
    role        TEXT NOT NULL,            -- verifier, generator
    action      TEXT NOT NULL,            -- promote, rollback
    model_id    TEXT,                     -- in use since; NULL: no registered one
    previous_id TEXT,                     -- in use before; NULL: no registered one
    run_id      TEXT,                     -- the comparison that was looked at
    outcome     TEXT NOT NULL,            -- what that comparison said; empty where there was none
    note        TEXT NOT NULL,
    signed_by   TEXT NOT NULL,
    signed_at   TIMESTAMPTZ NOT NULL
);

CREATE TABLE schedule (                   -- when a training of a role is due
    role            TEXT PRIMARY KEY,     -- verifier, generator
    after_decisions INTEGER,              -- so many new decisions since the last run; NULL: never by number
    weekday         INTEGER,              -- 0 Monday to 6 Sunday; NULL: never by the clock
    hour            INTEGER,              -- 0 to 23, UTC
    may_start       BOOLEAN NOT NULL,     -- started when due, else proposed to leads
    updated_by      TEXT NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
);
