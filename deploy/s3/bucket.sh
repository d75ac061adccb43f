#!/bin/sh
# Once before the first record: the lake's bucket. Harmless when run again.
set -eu
ask() {
    echo "$1" | weed shell -master=object-store:9333 2>&1
}
ask s3.bucket.list | grep -qw lake || ask "s3.bucket.create -name lake"
ask s3.bucket.list | grep -qw lake
