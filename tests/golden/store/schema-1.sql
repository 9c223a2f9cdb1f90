-- A database of release 0.1.0, dumped. It has one job that failed and one worker.
BEGIN TRANSACTION;
CREATE TABLE epoch (only INTEGER PRIMARY KEY CHECK (only = 1), last INTEGER NOT NULL) STRICT;
INSERT INTO "epoch" VALUES(1,1);
CREATE TABLE jobs (
         id TEXT PRIMARY KEY,
         uid TEXT NOT NULL UNIQUE,
         number INTEGER NOT NULL UNIQUE,
         state INTEGER NOT NULL,
         epoch INTEGER NOT NULL,
         create_time_ns INTEGER NOT NULL,
         spec BLOB NOT NULL,
         fingerprint BLOB NOT NULL,
         summary BLOB NOT NULL,
         body TEXT NOT NULL) STRICT;
INSERT INTO "jobs" VALUES('gpt','3fe4cae8f035006e8f59a48e42f4133e',1,6,1,1795470726679121612,X'0A1D10021840200428800230403881024001480461F168E388B5F8E43E680112060A046E6F6E651A0C08011001180120012801300122130A0D6D65676174726F6E5F73796E63120228012A4C0A056164616D7711FCA9F1D24D62503F192D431CEBE2361A3F21CDCCCCCCCCCCEC3F29666666666666EE3F313A8C30E28E79453E399A9999999999B93F4000480251000000000000F03F5805300138024002480250D2095A0210026001',X'63343863626230376133626462663566313733336138613566373463663062666264316163396232633530383339323438643439316163663831313831376264',X'060A0462021002','{"attempt":1,"conditions":[{"message":"1 rank on node-a","reason":"Placed","status":1,"time":1795470726679121612,"type":"Scheduled"},{"message":"rank 0 on worker node-a: exited with code 1 in prepare: open /data/none.idx: No such file or directory","reason":"DataInvalid","status":2,"time":1795470726679121612,"type":"Prepared"},{"message":"rank 0 on worker node-a: exited with code 1 in prepare: open /data/none.idx: No such file or directory","reason":"DataInvalid","status":2,"time":1795470726753835562,"type":"Succeeded"}],"create_time":1795470726679121612,"device_kind":1,"end_time":1795470726753835562,"epoch":1,"first_failure":{"exit_code":1,"last_operation":"","message":"exited with code 1 in prepare: open /data/none.idx: No such file or directory","phase":"prepare","rank":0,"reason":"DataInvalid","signal":0,"step":0,"time":1795470726745826421,"worker":"node-a"},"last_checkpoint":"","last_checkpoint_step":0,"ranks":[{"exit_code":1,"exit_reason":"DataInvalid","last_step":0,"signal":0,"slot":0,"state":3,"worker":"node-a"}],"request_id":"133c5944f356973a61b2a2c57a3437f8","split_blocks":false,"stages":[[1,1]],"state":6,"stop_reason":"DataInvalid","total_steps":2}');
CREATE TABLE workers (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
INSERT INTO "workers" VALUES('node-a','{"build":"0.1.0","devices":[{"description":"cpu core 0","fault":"","kind":1,"memory_bytes":12638251008,"slot":0},{"description":"cpu core 1","fault":"","kind":1,"memory_bytes":12638251008,"slot":1}],"host":"vm","incarnation":"1a3085a58aebca33cf984eb8004e2948","lease_end":1795470736682677267,"register_time":1795470724674889447,"state":2}');
COMMIT;
PRAGMA user_version = 1;
