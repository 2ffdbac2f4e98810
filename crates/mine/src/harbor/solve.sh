#!/bin/sh
set -e
cd /app
@REMOVE@
@EXTRACT@
