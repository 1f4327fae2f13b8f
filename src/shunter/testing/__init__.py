"""Test suites, references and cases for third parties.

``conformance`` holds the suites to inherit (``PolicyConformance``, ``BackendConformance``), ``manager_conformance`` the
one for resource managers, and ``memory_manager`` is a resource manager in memory.  ``invariants.check`` replays an
event log and finds what no schedule may do, ``cases`` are little clusters full of jobs, ``reference`` is a slow and
obvious simulator and ``leases`` one of policies that place by network tiers (``offers`` and ``reserving`` are parts of
it), ``strategies`` draw random inputs for hypothesis.
"""
